"""Norm of the gradient before the update chain."""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

gradient_norm = Metric("gradient_norm", lambda step: step.gradient.double().norm(dim=-1), default=True)
