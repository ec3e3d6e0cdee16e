"""Norm of the gradient before the update chain.

|g| = sqrt(sum_p g_p^2) over all parameters: shape `[R]`, in units of advantage per parameter. Blind to the direction,
and to how much of the length is sampling noise. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

gradient_norm = Metric(
    "gradient_norm", lambda step: step.gradient.double().norm(dim=-1), default=True, doc=__doc__, subject="policy"
)
