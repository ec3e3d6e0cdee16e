"""Largest share of one sample, or of one token, in the total weight that the method applies.

share = max w / (n E w) with w = |c / A| after truncation, shaping, clip and masks, n samples or tokens (as
`ess_applied`): shape `[R]`, a pure number in [1/n, 1], 0 for a population, NaN where every weight is 0. Blind to all
but the largest, and to the advantages. Source: this package.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._applied import log_applied
from asyncsim.diagnostics._diagnostic import Metric

max_applied_share = Metric(
    "max_applied_share", lambda step: ratios.max_weight_share(*log_applied(step)), outputs=("log_prob",), doc=__doc__
)
