"""Second moment of the sequence ratios minus one."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

chi_square = Metric(
    "chi_square",
    lambda step: ratios.chi_square(step.signal.sequence_log_ratio, step.signal.step_mass),
    outputs=("log_prob",),
)
