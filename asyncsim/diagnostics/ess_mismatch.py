"""Effective sample size of the part of the sequence ratios that is due to the sampler's numerics.

ESS/N of W_i = prod_t pi_trainer(y_it) / pi_sampler(y_it) at the same behavior weights, the one scored in the trainer's
numerics, the other as sampled: shape `[R]`, a pure number in [1/n, 1], exactly 1 where the sampler is the trainer.
Blind to staleness (`ess_staleness`). Source: Kong 1992; the split is this package's.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

ess_mismatch = Metric(
    "ess_mismatch",
    lambda step: ratios.ess(step.mismatch_log_ratio.sum(-1), step.step_mass),
    outputs=("log_prob",),
    doc=__doc__,
)
