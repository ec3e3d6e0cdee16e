"""Episodes that ended in the batch.

n = number of episode ends inside the batch's trajectories: shape `[R]`, a pure number; the weight of `episode_return`.
Blind to how long they were. Source: this package.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, finished

episodes = Metric("episodes", lambda step: finished(step)[0], outputs=(), doc=__doc__, subject="batch")
