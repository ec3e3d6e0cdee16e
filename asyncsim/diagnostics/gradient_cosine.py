"""Cosine between this gradient and the one an update before; NaN where there is none.

kappa_t = <g_t, g_(t-1)> / (|g_t| |g_(t-1)|), before the update chain: shape `[R]`, a pure number in [-1, 1]; NaN too
where either is zero or not finite. Blind to why gradients agree: about |E g|^2 / (|E g|^2 + tr Var g) for a steady mean
at any staleness, so it compares runs of equal batch, step size and return only. Source: as a precursor of collapse
2603.01501.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

gradient_cosine = Metric(
    "gradient_cosine",
    lambda step: ratios.cosine(step.gradient, step.previous),
    default=True,
    doc=__doc__,
    subject="policy",
)
