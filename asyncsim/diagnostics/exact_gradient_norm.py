"""Norm of the exact gradient at the current parameters."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

exact_gradient_norm = Metric("exact_gradient_norm", lambda step: step.exact[1].norm(dim=-1), enumerates=True)
