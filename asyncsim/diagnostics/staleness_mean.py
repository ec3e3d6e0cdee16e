"""Mean staleness over all tokens of the step, in versions.

s = sum_it share_it (v_train - v_it) over generated tokens by mass, so that long samples count more: shape `[R]`, in
versions, NaN where a version is unknown. Blind to the spread, and to updates made since the publish. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._ages import ages
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import token_share

staleness_mean = Metric(
    "staleness_mean", lambda step: (token_share(step) * ages(step).token).sum((1, 2, 3)), doc=__doc__
)
