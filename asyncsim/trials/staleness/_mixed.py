"""Batches whose groups have stalenesses of their own: their mean gradient is that of a law of staleness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from asyncsim.base.records import Estimate, Point
from asyncsim.learning.spec import Spec
from asyncsim.schedules._imposed import Imposed, Request
from asyncsim.trials._threshold import marginal_step, noiseless_descent
from asyncsim.trials._trial import Plant

GROUPS = 24
"""Most groups of a batch."""


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


def step_of(point: Point, seed: int, plant: Plant) -> Estimate:
    """Largest stable learning rate of batches that hold the law's stalenesses in the law's shares."""
    largest, scale = len(point["law"]) - 1, 1.0 / point["curvature"]
    mixed = noiseless_descent((point["curvature"],), mixture(in_groups(point["law"]) or [0]))

    def build(steps: tuple[float, ...], count: int) -> Spec:
        return plant(mixed(steps, count))

    return marginal_step(build, 0.4 * scale / (1 + largest), 4.5 * scale, largest + 2, seed)


def why_no_batch(point: Point) -> str | None:
    """Why no batch holds a law's shares; None where one does."""
    if in_groups(point["law"]) is None:
        return f"chances that are shares of at most {GROUPS} groups: a batch has no others"
    return None
