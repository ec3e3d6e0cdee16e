"""Variance of the sequence log ratio in the batch."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

log_ratio_variance = Metric(
    "log_ratio_variance",
    lambda step: ratios.log_moments(step.signal.sequence_log_ratio, step.signal.step_mass)[1],
    outputs=("log_prob",),
    default=True,
)
