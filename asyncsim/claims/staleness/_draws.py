"""Points with random staleness, and exact moments of descent over every sequence of draws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.declared import Declared, Draw, Positive, Vector
from asyncsim.claims import _random

LONGEST = 24
"""Largest staleness of a law."""
PATHS = 2**16
"""Most sequences of draws that are enumerated."""


class RandomDelays(Declared):
    """Base of points with a law of staleness and one curvature."""

    law = Vector(
        example=(0.4, 0.0, 0.6),
        doc="probabilities of staleness 0, 1, ...",
        remedy="give the probabilities of staleness 0, 1, ...",
    )
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        """Probabilities add up to 1."""
        _random.check_law(self.law, LONGEST)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Staleness of at most 2."""
        weights = [*draw(Vector(typical=(0.0, 1.0), sizes=(0, 2))), 1.0]
        law = tuple(weight / sum(weights) for weight in weights)
        return {name: law if name == "law" else draw(p) for name, p in cls.parameters.items()}


def check_paths(law: np.ndarray, updates: int, groups: int = 1) -> None:
    """Refuse runs whose sequences of draws cannot be listed."""
    remedy = "shorten the run or the law"
    values = int(np.count_nonzero(law))
    checks.power("values ** draws", values, updates * groups, PATHS, "sequences of draws", remedy)


def outcomes(law: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """All ordered stalenesses of so many groups `[O, B]`, and their chances `[O]`."""
    each = np.array(list(itertools.product(np.flatnonzero(law), repeat=groups)))
    return each, law[each].prod(axis=1)


def enumerated(law: np.ndarray, share: float, updates: int, groups: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """x_T from x_0 = 1 on every sequence of draws `[K]`, and their chances `[K]`; `share` = step * curvature."""
    shifts, chance = outcomes(law, groups)
    path, mass = np.ones((1, 1)), np.ones(1)
    for t in range(updates):
        read = np.maximum(t - shifts, 0)
        following = path[:, None, -1] - share * path[:, read].mean(axis=-1)
        history = np.repeat(path, len(shifts), axis=0)
        path = np.column_stack([history, following.ravel()])
        mass = np.outer(mass, chance).ravel()
    return path[:, -1], mass


def mean_path(law: np.ndarray, share: float, updates: int) -> float:
    """x_T of the averaged recursion from x_0 = 1."""
    step = np.linalg.matrix_power(_random.averaged(law, share), updates)
    return float(step[0].sum())
