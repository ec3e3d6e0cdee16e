"""Variance of the part of the sequence log ratio that is due to stale weights.

v = Var_mu sum_t (log pi_current - log pi_behavior)(y_it), both in the trainer's numerics, over the step's samples by
mass: shape `[R]`, in nats squared. For normal log ratios ESS/N = exp(-v),
whatever the length. Blind to a common shift of the log ratios. Source: 1511.01437 for its use.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

staleness_variance = Metric(
    "staleness_variance",
    lambda step: ratios.log_moments(step.staleness_log_ratio.sum(-1), step.step_mass)[1],
    outputs=("log_prob",),
    doc=__doc__,
)
