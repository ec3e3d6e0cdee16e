"""Largest share of one sample in the total weight of the step.

share = max_i W_i / (n E W) with W_i = pi(y_i) / mu(y_i) untruncated and n samples: shape `[R]`, a pure number in [1/n,
1], 0 for a population. Blind to all samples but the largest, and to a common factor. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric, samples

max_weight_share = Metric(
    "max_weight_share",
    lambda step: ratios.max_weight_share(step.sequence_log_ratio, step.step_mass, samples(step)),
    outputs=("log_prob",),
    doc=__doc__,
)
