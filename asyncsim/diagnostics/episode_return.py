"""Mean return of the episodes that ended in the batch.

R = mean over episodes of sum_t r_t, from reset to end, for the episodes that ended in the batch: shape `[R]`, in
units of reward, NaN where none ended. Segments count an episode in the batch that holds its last token. Blind to
episodes that are still running, so early batches favor short ones. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, finished

episode_return = Metric("episode_return", lambda step: finished(step)[1], outputs=(), doc=__doc__, subject="batch")
