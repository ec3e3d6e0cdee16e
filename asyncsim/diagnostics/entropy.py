"""Mean entropy of the current policy at the batch's states."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, token_average

entropy = Metric(
    "entropy",
    lambda step: step.mean(token_average(step, step.signal.current("entropy"))),
    outputs=("entropy",),
    default=True,
)
