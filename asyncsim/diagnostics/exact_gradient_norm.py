"""Norm of the exact gradient at the current parameters.

|grad J| = sqrt(sum_p (dJ/dtheta_p)^2) before the update, J averaged over prompts: shape `[R]`, in units of reward per
parameter. Blind to what the method does; small at an optimum and on a plateau alike. Needs a task that can be
enumerated. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

exact_gradient_norm = Metric(
    "exact_gradient_norm", lambda step: step.exact[1].norm(dim=-1), enumerates=True, doc=__doc__, subject="policy"
)
