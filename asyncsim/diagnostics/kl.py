"""Mean divergence of behavior from current policy per sequence, k3 estimate on the batch."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

kl = Metric(
    "kl",
    lambda step: step.mean(step.signal.sequence_log_ratio.expm1() - step.signal.sequence_log_ratio),
    outputs=("log_prob",),
    default=True,
)
