"""Batches whose groups have stalenesses of their own: their mean gradient is that of a law of staleness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from asyncsim.base.records import Estimate, Point
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.threshold import marginal_step, noiseless_descent
from asyncsim.schedules.imposed import Imposed, Request

GROUPS, MANY = 24, 4096
"""Most groups of a batch that has a law exactly, and groups of one that has it nearly."""


def mixture(stalenesses: Sequence[int]) -> Imposed:
    """One group for each staleness in every batch.

    >>> mixture((0, 2)).schedule(4, 1, 1, 1, seed=0).staleness().reshape(4, 2).tolist()
    [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    """
    each = tuple(int(s) for s in stalenesses)
    settings = {"stalenesses": list(each)}
    return Imposed("mixture", settings, partial(_versions, each), groups_per_batch=len(each), reached=max(each))


def _versions(stalenesses: tuple[int, ...], request: Request) -> np.ndarray:
    return np.maximum(request.train_version[:, None, None] - np.array(stalenesses)[None, :, None], 0)


def in_groups(law: Sequence[float]) -> tuple[list[int], float]:
    """Stalenesses of the groups of the smallest batch that has this law, and by how much its shares are off in all.

    >>> in_groups((0.25, 0.0, 0.75))
    ([0, 2, 2, 2], 0.0)
    """
    shares = np.asarray(law, dtype=np.float64)
    for groups in range(1, GROUPS + 1):
        counts = np.round(shares * groups).astype(int)
        if np.allclose(counts, shares * groups, atol=1e-9):
            return np.repeat(np.arange(len(counts)), counts).tolist(), 0.0
    ends = np.round(np.cumsum(shares) / shares.sum() * MANY).astype(int)
    counts = np.diff(ends, prepend=0)
    return np.repeat(np.arange(len(counts)), counts).tolist(), float(np.abs(counts / MANY - shares).sum())


def widened(step: Estimate, off: float) -> Estimate:
    """A stable learning rate with the allowance for shares that are off: an error of the gradient moves it as much.

    The factor is for what the oscillation's period adds.
    """
    return step._replace(tolerance=step.tolerance + 4.0 * off * step.value)


def step_of(point: Point, seed: int, plant: Plant) -> Estimate:
    """Largest stable learning rate of batches that hold the law's stalenesses in the law's shares."""
    largest, scale = len(point["law"]) - 1, 1.0 / point["curvature"]
    stalenesses, off = in_groups(point["law"])
    build = noiseless_descent((point["curvature"],), mixture(stalenesses), plant)
    return widened(marginal_step(build, 0.4 * scale / (1 + largest), 4.5 * scale, largest + 2, seed), off)
