"""Staleness of single tokens and its reductions over a trajectory."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from asyncsim.diagnostics._levels import sample_share
from asyncsim.step.step import Step


class Ages(NamedTuple):
    """Staleness of every token `[R, G, N, T]` (0 where masked), and the largest and smallest of each sample."""

    token: Tensor
    oldest: Tensor
    newest: Tensor


def ages(step: Step) -> Ages:
    """v_train - v_token in versions; a sample with an unknown version is NaN, one without tokens 0."""
    mask = step.batch.mask > 0
    age = step.staleness.double().expand(mask.shape)
    oldest = torch.where(mask, age, torch.full((), -math.inf, dtype=age.dtype)).amax(-1)
    newest = torch.where(mask, age, torch.full((), math.inf, dtype=age.dtype)).amin(-1)
    some, nothing = mask.any(-1), torch.zeros((), dtype=age.dtype)
    return Ages(torch.where(mask, age, nothing), torch.where(some, oldest, nothing), torch.where(some, newest, nothing))


def over_samples(step: Step, values: Tensor) -> Tensor:
    """Mean of values `[R, G, N]` over the samples that have tokens, by mass, `[R]`."""
    share = sample_share(step)
    return torch.where(share > 0, share * values, torch.zeros_like(share)).sum((1, 2))
