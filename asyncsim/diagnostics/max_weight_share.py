"""Largest share of one sample in the total weight of the step."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric, samples

max_weight_share = Metric(
    "max_weight_share",
    lambda step: ratios.max_weight_share(step.signal.sequence_log_ratio, step.signal.step_mass, samples(step)),
    outputs=("log_prob",),
)
