"""Orders in which workers deliver, and lags counted on them: the second route to the conservation laws of staleness.

A worker reads the newest parameters, works, delivers (one update), and reads again. Lags are integers counted on a
path, so an identity that holds for every order can be checked on any.
"""

import heapq
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.laws import Law
from asyncsim.claims import _engines, _work
from asyncsim.claims._claim import Integer, Parsed, Vector


class Workers(_engines.Engines):
    """Base of claims on workers that deliver and start again at once, each at its own rate."""

    workers = Integer(
        2, typical=(2, 12), example=3, doc="workers that update on arrival",
        remedy="one worker is never stale; give at least two",
    )  # fmt: skip
    rates = Vector(
        0.0, typical=(0.5, 4.0), example=(1.0, 2.0, 5.5), optional=True, unit="work per second",
        doc="speed of each worker, all alike unless given",
    )  # fmt: skip

    def joint(self) -> None:
        """Every worker has a rate of its own."""
        if self.rates is not None:
            checks.finite_array("rates", self.rates.tolist(), [self.workers], "give each worker a rate")
        rates = np.ones(self.workers) if self.rates is None else self.rates
        # Share of the speed of all that each worker has.
        self.shares = rates / rates.sum()


def service(**details: Any) -> Parsed[Law]:
    """Law of the time of a worker of rate 1."""
    doc = "distribution of the time from reading to delivering at rate 1"
    return Parsed(
        _work.law_text, "the text of a distribution of finite mean", **{"unit": "seconds", "doc": doc, **details}
    )


def order(workers: int, updates: int, rates: np.ndarray | None = None, *, seed: int = 0) -> np.ndarray:
    """Worker that makes each update, int `[updates]`; log-normal service times (sigma 1) with the given rates."""
    generator = np.random.default_rng(seed)
    rates = np.ones(workers) if rates is None else rates
    work = iter(generator.lognormal(0.0, 1.0, updates + workers))
    queue = [(next(work) / rates[w], w) for w in range(workers)]
    heapq.heapify(queue)
    sequence = np.empty(updates, dtype=np.int64)
    for t in range(updates):
        now, w = queue[0]
        sequence[t] = w
        heapq.heapreplace(queue, (now + next(work) / rates[w], w))
    return sequence


def lags_and_ages(workers: int, sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Delays of applied gradients `[updates]` and ages of those in flight at the end `[workers]`, integers in updates.

    >>> lags_and_ages(2, np.array([0, 0, 1]))
    (array([0, 0, 2]), array([1, 0]))
    """
    versions = np.zeros(workers, dtype=np.int64)
    lags = np.empty(len(sequence), dtype=np.int64)
    for t, w in enumerate(sequence):
        lags[t] = t - versions[w]
        versions[w] = t + 1
    return lags, len(sequence) - versions


def cyclic_mean_lag(sequence: np.ndarray, groups: int = 1) -> float:
    """Mean versions, of so many deliveries each, that pass while a worker is out, when the order repeats for ever.

    >>> cyclic_mean_lag(np.array([0, 1, 0, 2]))
    2.0
    """
    # So many rounds close a cycle of versions, behind as many in which every worker has begun.
    deliveries = np.tile(sequence, 2 * groups)
    restarts, stalenesses = dict.fromkeys(sequence.tolist(), 0), []
    for t, worker in enumerate(deliveries.tolist()):
        stalenesses.append(t // groups - restarts[worker])
        restarts[worker] = (t + 1) // groups
    return sum(stalenesses[len(deliveries) // 2 :]) / (len(deliveries) // 2)
