"""Mean sequence log ratio of the batch."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

log_ratio_mean = Metric(
    "log_ratio_mean",
    lambda step: ratios.log_moments(step.signal.sequence_log_ratio, step.signal.step_mass)[0],
    outputs=("log_prob",),
)
