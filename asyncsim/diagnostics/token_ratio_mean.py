"""Mean token ratio: 1 when the logged probabilities are those sampled from.

E r = sum_it share_it r_it with r_it = pi/mu untruncated, over the tokens of the step by mass: shape `[R]`, a pure
number, 1 in expectation on full support where all sequences have equal lengths. Blind to errors that cancel, and to
products along a sequence (`mean_weight`). Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import ratios_of

token_ratio_mean = Metric(
    "token_ratio_mean", lambda step: ratios.mean_weight(*ratios_of(step, "token")), outputs=("log_prob",), doc=__doc__
)
