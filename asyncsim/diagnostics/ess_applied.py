"""Effective sample size of the weights that the method really applies.

ESS/n = (E w)^2 / E w^2 with w = |c / A| after truncation, shaping, clip and masks (without an advantage: as for A = 1),
per sample where a sample has one weight, else per token: shape `[R]`, a pure number in [1/n, 1], NaN where every weight
is 0. Blind to what was cut off (`ess` has the same of untruncated ratios), to penalties, and to a common factor.
Source: Kong 1992; on applied weights this package.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._applied import log_applied
from asyncsim.diagnostics._diagnostic import Metric

ess_applied = Metric("ess_applied", lambda step: ratios.ess(*log_applied(step)[:2]), outputs=("log_prob",), doc=__doc__)
