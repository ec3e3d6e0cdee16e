"""Effective sample size of the token ratios inside each sample, averaged over samples.

ESS = E_i (sum_t r_it)^2 / (T_i sum_t r_it^2) with r_it = pi/mu untruncated, over samples by mass: shape `[R]`, a pure
number in (0, 1]. Blind to all that differs between samples: 1 for one-token tasks and for any ratios that are constant
inside a sequence. Source: as in miles, divided by the number of samples that have tokens.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._ages import over_samples
from asyncsim.diagnostics._diagnostic import Metric

ess_within = Metric(
    "ess_within",
    lambda step: over_samples(step, ratios.ess_along(step.log_ratio, step.batch.mask.double(), -1)),
    outputs=("log_prob",),
    doc=__doc__,
)
