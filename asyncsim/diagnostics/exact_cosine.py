"""Cosine between the batch gradient and the exact gradient."""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

exact_cosine = Metric("exact_cosine", lambda step: ratios.cosine(step.gradient, step.exact[1]), enumerates=True)
