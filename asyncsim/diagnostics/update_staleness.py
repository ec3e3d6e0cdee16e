"""Staleness of the oldest token of the step, in optimizer updates.

u = (v_train - min_it v_it) U + j with U updates per version and j made since the trained version was published: shape
`[R]`, in updates, NaN where a version is unknown. Counts the updates on a drained batch that versions do not see. Blind
to all tokens but one. Source: textbook.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import Metric, Step
from asyncsim.versions import tensor


def _updates(step: Step) -> Tensor:
    batch = step.signal.batch
    oldest = batch.version.reshape(batch.version.shape[0], -1).min(axis=1)
    return torch.where(
        tensor(oldest[batch.realization]) >= 0,
        step.record.update_staleness,
        torch.full((), math.nan, dtype=torch.float64),
    )


update_staleness = Metric("update_staleness", _updates, doc=__doc__)
