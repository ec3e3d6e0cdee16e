"""Cosine between this gradient and the one an update before; NaN where there is none."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

gradient_cosine = Metric("gradient_cosine", lambda step: ratios.cosine(step.gradient, step.previous), default=True)
