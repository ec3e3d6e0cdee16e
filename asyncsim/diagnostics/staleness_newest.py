"""Mean staleness of each trajectory's newest token, in versions.

s = E_i min_t (v_train - v_it) over the generated tokens of each sample, by mass: shape `[R]`, in versions, NaN where a
version is unknown. What stacks report that stamp a trajectory at its end. Blind to all older tokens: it understates.
Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._ages import ages, over_samples
from asyncsim.diagnostics._diagnostic import Metric

staleness_newest = Metric("staleness_newest", lambda step: over_samples(step, ages(step).newest), doc=__doc__)
