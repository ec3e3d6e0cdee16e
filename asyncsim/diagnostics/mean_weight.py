"""Mean sequence ratio: 1 when the logged probabilities are those sampled from."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

mean_weight = Metric(
    "mean_weight",
    lambda step: ratios.mean_weight(step.signal.sequence_log_ratio, step.signal.step_mass),
    outputs=("log_prob",),
    default=True,
)
