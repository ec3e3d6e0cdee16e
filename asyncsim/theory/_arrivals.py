"""Orders in which workers deliver, and lags counted on them: the second route to the conservation laws of staleness.

A worker reads the newest parameters, works, delivers (one update), and reads again. Lags are integers counted on a
path, so an identity that holds for every order can be checked on any.
"""

from __future__ import annotations

import heapq

import numpy as np


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
    read = np.zeros(workers, dtype=np.int64)
    lags = np.empty(len(sequence), dtype=np.int64)
    for t, w in enumerate(sequence):
        lags[t] = t - read[w]
        read[w] = t + 1
    return lags, len(sequence) - read


def cyclic_mean_lag(sequence: np.ndarray) -> float:
    """Mean delay when the order is repeated forever and every worker occurs in it.

    >>> cyclic_mean_lag(np.array([0, 1, 0, 2]))
    2.0
    """
    length, total = len(sequence), 0
    for w in np.unique(sequence):
        places = np.flatnonzero(sequence == w)
        gaps = np.diff(places, append=places[0] + length)
        total += int((gaps - 1).sum())
    return total / length
