"""Effective sample size of the sequence ratios over the number of samples, whole step."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

ess = Metric(
    "ess",
    lambda step: ratios.ess(step.signal.sequence_log_ratio, step.signal.step_mass),
    outputs=("log_prob",),
    default=True,
)
