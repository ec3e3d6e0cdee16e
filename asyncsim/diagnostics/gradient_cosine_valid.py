"""Whether `gradient_cosine` has a value: 0 or 1.

valid = [g_t and g_(t-1) exist, are finite and are not zero]: shape `[R]`, a pure number, 0 at the first update, at one
whose gradient was lost, and at the one behind it. Its mean over a run is the share of cosines that count. Blind to the
cosine's value. Source: this package.
"""

from __future__ import annotations

import torch

from asyncsim import ratios
from asyncsim.diagnostics._diagnostic import Metric

gradient_cosine_valid = Metric(
    "gradient_cosine_valid",
    lambda step: torch.isfinite(ratios.cosine(step.gradient, step.previous)).double(),
    doc=__doc__,
    subject="policy",
)
