"""Cosine between the batch gradient and the exact gradient.

cos = <g, grad J> / (|g| |grad J|), before the update chain, at the weights before the update: shape `[R]`, a pure
number in [-1, 1], NaN where either vanishes. Blind to lengths, and to whether bias or sampling noise turned the
gradient. Needs a task that can be enumerated. Source: textbook.
"""

from __future__ import annotations

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

exact_cosine = Metric(
    "exact_cosine",
    lambda step: ratios.cosine(step.gradient, step.exact[1]),
    enumerates=True,
    doc=__doc__,
    subject="policy",
)
