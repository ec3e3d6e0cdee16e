"""Hill estimate of the tail exponent of the sequence ratios of the step."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

tail_index = Metric("tail_index", lambda step: ratios.tail_index(step.signal.sequence_log_ratio), outputs=("log_prob",))
