"""Batches whose groups have stalenesses of their own: their mean gradient is that of a law of staleness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from asyncsim.schedules._imposed import Imposed, Request

GROUPS = 24
"""Most groups of a batch."""


def mixture(stalenesses: Sequence[int]) -> Imposed:
    """One group for each staleness in every batch.

    >>> mixture((0, 2)).schedule(4, 1, 1, 1, seed=0).staleness()[0, :, :, 0].tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    """
    each = tuple(int(s) for s in stalenesses)
    settings = {"stalenesses": list(each)}
    return Imposed("mixture", settings, partial(_versions, each), groups_per_batch=len(each), reached=max(each))


def _versions(stalenesses: tuple[int, ...], request: Request) -> np.ndarray:
    return np.maximum(request.train_version[:, None, None] - np.array(stalenesses)[None, :, None], 0)


def in_groups(law: Sequence[float]) -> list[int] | None:
    """Stalenesses of the groups of the smallest batch that has this law; None where no batch of `GROUPS` has it.

    >>> in_groups((0.25, 0.0, 0.75))
    [0, 2, 2, 2]
    """
    for groups in range(1, GROUPS + 1):
        counts = np.round(np.asarray(law) * groups)
        if np.allclose(counts, np.asarray(law) * groups, atol=1e-9):
            return np.repeat(np.arange(len(counts)), counts.astype(int)).tolist()
    return None
