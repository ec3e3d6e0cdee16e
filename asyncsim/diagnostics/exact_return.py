"""Expected reward of the current policy."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

exact_return = Metric("exact_return", lambda step: step.exact[0], enumerates=True)
