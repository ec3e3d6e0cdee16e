"""Effective sample size of the part of the sequence ratios that is due to stale weights.

ESS/N of W_i = prod_t pi_current(y_it) / pi_behavior(y_it), both in the trainer's numerics: shape `[R]`, a pure number
in [1/n, 1]; together with `ess_mismatch` it splits `ess`, whose log ratio is the sum of the two. Equal to `ess` where
the sampler is the trainer. Blind to what the sampler's rounding adds. Source: Kong 1992; the split is this package's.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

ess_staleness = Metric(
    "ess_staleness",
    lambda step: ratios.ess(step.staleness_log_ratio.sum(-1), step.step_mass),
    outputs=("log_prob",),
    doc=__doc__,
)
