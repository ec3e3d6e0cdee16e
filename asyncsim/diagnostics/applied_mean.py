"""Mean size of the weights that the method really applies.

mean = E w with w = |c / A| after truncation, shaping, clip and masks, over samples or tokens by mass (as
`ess_applied`): shape `[R]`, a pure number, 1 for the plain policy gradient. Blind to the spread, and to penalties.
Source: this package.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._applied import log_applied
from asyncsim.diagnostics._diagnostic import Metric

applied_mean = Metric(
    "applied_mean", lambda step: ratios.mean_weight(*log_applied(step)[:2]), outputs=("log_prob",), doc=__doc__
)
