"""Mean sequence log ratio of the batch.

E log W = sum_i mass_i log W_i with W_i = pi(y_i) / mu(y_i): shape `[R]`, in nats per sequence; minus KL(mu || pi) in
expectation. Blind to spread: ratios far above and far below 1 cancel. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

log_ratio_mean = Metric(
    "log_ratio_mean",
    lambda step: ratios.log_moments(step.sequence_log_ratio, step.step_mass)[0],
    outputs=("log_prob",),
    doc=__doc__,
)
