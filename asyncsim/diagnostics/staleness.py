"""Mean staleness of the batch's first tokens, in versions.

s = mean_i (v_train - v_i1), the version trained at minus the behavior version of the first token: shape `[R]`, in
versions, NaN where a version is unknown. Blind to the spread in the batch, to later tokens of a trajectory, which may
be fresher, and to the updates made since the publish. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, head_staleness

staleness = Metric("staleness", lambda step: head_staleness(step), default=True, doc=__doc__)
