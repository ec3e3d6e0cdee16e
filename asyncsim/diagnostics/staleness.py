"""Mean staleness of the batch's first tokens, in versions."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, head_staleness

staleness = Metric("staleness", lambda step: head_staleness(step), default=True)
