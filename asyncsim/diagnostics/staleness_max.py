"""Staleness of the oldest token of the step, in versions.

s = max_it (v_train - v_it) over the generated tokens of all samples that have mass: shape `[R]`, in versions, NaN where
a version is unknown. What a bound on the lag promises. Blind to all tokens but one. Source: textbook.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asyncsim.diagnostics._ages import ages
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._levels import sample_share
from asyncsim.step import Step


def _oldest(step: Step) -> Tensor:
    oldest = ages(step).oldest
    present = (sample_share(step) > 0).expand(oldest.shape)
    return torch.where(present, oldest, torch.full((), -math.inf, dtype=oldest.dtype)).amax((1, 2))


staleness_max = Metric("staleness_max", _oldest, doc=__doc__)
