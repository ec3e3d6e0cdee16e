"""Mean staleness of each trajectory's oldest token, in versions.

s = E_i max_t (v_train - v_it) over the generated tokens of each sample, by mass: shape `[R]`, in versions, NaN where a
version is unknown. Equal to `staleness` where versions never fall along a trajectory. Blind to younger tokens and to
updates made since the publish. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._ages import ages, over_samples
from asyncsim.diagnostics._diagnostic import Metric

staleness_head = Metric("staleness_head", lambda step: over_samples(step, ages(step).oldest), doc=__doc__)
