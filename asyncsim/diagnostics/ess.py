"""Effective sample size of the sequence ratios over the number of samples, whole step.

ESS/N = (E W)^2 / E W^2 with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, a pure number in [1/n, 1] for n samples,
1 iff the ratios are equal. Blind to a common factor of the ratios (`mean_weight` sees it) and, once it is near 1/n, to
how much worse the truth is. Source: Kong 1992; on sequences of a whole step 2602.17616.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

ess = Metric(
    "ess",
    lambda step: ratios.ess(step.sequence_log_ratio, step.step_mass),
    outputs=("log_prob",),
    default=True,
    doc=__doc__,
)
