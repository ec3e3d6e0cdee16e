"""Staleness of the oldest token of the step, in optimizer updates.

u = (v_train - min_it v_it) U + j with U updates per version and j made since the trained version was published: shape
`[R]`, in updates, NaN where a version is unknown. Counts the updates on a drained batch that versions do not see. Blind
to all tokens but one. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

update_staleness = Metric("update_staleness", lambda step: step.update_staleness, doc=__doc__)
