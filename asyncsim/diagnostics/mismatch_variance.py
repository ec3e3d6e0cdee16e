"""Variance of the part of the sequence log ratio that is due to the sampler's numerics.

v = Var_mu sum_t (log pi_trainer - log pi_sampler)(y_it) at the behavior weights, over the step's samples by mass: shape
`[R]`, in nats squared; 0 where the sampler is the trainer. Blind to a common shift. Source: this package.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

mismatch_variance = Metric(
    "mismatch_variance",
    lambda step: ratios.log_moments(step.mismatch_log_ratio.sum(-1), step.step_mass)[1],
    outputs=("log_prob",),
    doc=__doc__,
)
