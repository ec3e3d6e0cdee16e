"""Points with workers of exponential service times, and every order in which they deliver."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from asyncsim.base import checks
from asyncsim.base.declared import Count, Declared, Integer, Positive, Real

ORDERS = 2**14
"""Most orders that are enumerated."""


class ExponentialWorkers(Declared):
    """Base of points with M workers that deliver in an order of independent, equal draws."""

    workers = Integer(2, 64, typical=(2, 4), example=3, doc="workers that update on arrival", remedy="have two or more")
    updates = Count(1, 12, typical=(1, 6), example=5, unit="updates", doc="updates of the run")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        """All orders of a run can be listed."""
        remedy = "shorten the run, or have fewer workers"
        checks.power("workers ** updates", self.workers, self.updates, ORDERS, "orders", remedy)


def share_of_run() -> Real:
    """step * curvature of a run."""
    return Real(0.0, 2.0, typical=(0.01, 1.0), example=0.5, doc="step * curvature of the run")


def paths(workers: int, updates: int, start: np.ndarray, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Iterates of all equally likely orders, `[K, T+1, P]`: the worker of an update adds `move` of what it has read."""
    orders = np.array(list(itertools.product(range(workers), repeat=updates)))
    rows = np.arange(len(orders))
    read = np.broadcast_to(start, (len(orders), workers, start.size)).copy()
    iterates = [np.broadcast_to(start, (len(orders), start.size))]
    for t in range(updates):
        worker = orders[:, t]
        iterates.append(iterates[-1] + move(read[rows, worker]))
        read[rows, worker] = iterates[-1]
    return np.stack(iterates, axis=1)
