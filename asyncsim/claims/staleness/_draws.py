"""Points with random staleness or workers of random times, and descent over every sequence of draws, every order."""

import itertools
from collections.abc import Callable

import numpy as np

from asyncsim.claims import _random
from asyncsim.claims._claim import Claim, Count, Integer, Positive, checks


class RandomDelays(Claim):
    """Base of claims on a law of staleness and one curvature."""

    law = _random.staleness_law("", 0.4, 0.0, 0.6)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        _random.check_law(self.law, 24)


def check_paths(law: np.ndarray, updates: int, groups: int = 1) -> None:
    """Refuse runs whose sequences of draws cannot be listed."""
    values, remedy = int(np.count_nonzero(law)), "shorten the run or the law"
    checks.power("values ** draws", values, updates * groups, 2**16, "sequences of draws", remedy)


def enumerated(law: np.ndarray, share: float, updates: int, groups: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """x_T from x_0 = 1 on every sequence of draws `[K]`, and their chances `[K]`; `share` = step * curvature."""
    # All ordered stalenesses of an update `[O, B]`, and their chances `[O]`.
    shifts = np.array(list(itertools.product(np.flatnonzero(law), repeat=groups)))
    chance = law[shifts].prod(axis=1)
    path, mass = np.ones((1, 1)), np.ones(1)
    for t in range(updates):
        read = np.maximum(t - shifts, 0)
        following = path[:, None, -1] - share * path[:, read].mean(axis=-1)
        history = np.repeat(path, len(shifts), axis=0)
        path = np.column_stack([history, following.ravel()])
        mass = np.outer(mass, chance).ravel()
    return path[:, -1], mass


class ExponentialWorkers(Claim):
    """Base of claims on M workers that deliver in an order of independent, equal draws."""

    workers = Integer(2, 64, typical=(2, 4), example=3, doc="workers that update on arrival", remedy="have two or more")
    updates = Count(1, 12, typical=(1, 6), example=5, unit="updates", doc="updates of the run")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        remedy = "shorten the run, or have fewer workers"
        checks.power("workers ** updates", self.workers, self.updates, 2**14, "orders", remedy)


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
