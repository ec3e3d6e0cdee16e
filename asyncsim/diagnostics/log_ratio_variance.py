"""Variance of the sequence log ratio in the batch.

Var log W_i = E (log W_i - E log W)^2 by mass, divided by n, with W_i = pi(y_i) / mu(y_i): shape `[R]`, in nats^2. For
normal log ratios ESS/N = exp(-Var log W). Blind to the mean and to tails heavier than normal. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

log_ratio_variance = Metric(
    "log_ratio_variance",
    lambda step: ratios.log_moments(step.sequence_log_ratio, step.step_mass)[1],
    outputs=("log_prob",),
    default=True,
    doc=__doc__,
)
