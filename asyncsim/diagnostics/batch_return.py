"""Mean reward of the batch, under the behavior policy."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

batch_return = Metric(
    "batch_return", lambda step: step.mean(step.signal.batch.reward), outputs=("log_prob",), default=True
)
