"""Mean sequence ratio: 1 when the logged probabilities are those sampled from.

E W = sum_i mass_i W_i with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, a pure number, 1 in expectation on full
support whatever the staleness. Blind to errors that cancel; far from mu most batches miss the rare heavy ratios and
read below 1. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

mean_weight = Metric(
    "mean_weight",
    lambda step: ratios.mean_weight(step.sequence_log_ratio, step.step_mass),
    outputs=("log_prob",),
    default=True,
    doc=__doc__,
)
