"""Head staleness of simulated systems in stationarity, with errors between realizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base.records import Estimate, Timeline
from asyncsim.base.uncertainty import between
from asyncsim.claims._trial import Plant, Wrapped


def stationary_heads(
    system: Any, batches: int, warm_up: int, realizations: int, seed: int, samples_per_group: int = 1
) -> np.ndarray:
    """Head staleness of every group trained after the warm-up, `[M, groups]`."""
    stalenesses = system.staleness(batches, realizations, seed, samples_per_group)
    return np.asarray(stalenesses[:, warm_up:].reshape(realizations, -1))


def mean_over_realizations(values: np.ndarray) -> Estimate:
    """Mean of numbers `[M, ...]` with its error between realizations; exact where all are equal."""
    estimate = between(values, np.arange(len(values)), random=True)
    return estimate._replace(tolerance=1e-12 * max(1.0, abs(estimate.value)))


class _Stamped(Wrapped):
    """A system whose record has another stamp in place of one of its own."""

    def __init__(self, system: Any, table: str, column: str, stamp: Callable[[Timeline], np.ndarray]) -> None:
        super().__init__(system)
        self._change = table, column, stamp

    def timeline(self, *arguments: Any, **options: Any) -> Timeline:
        """The system's timeline with one column overwritten."""
        record: Timeline = self._inner.timeline(*arguments, **options)
        table, column, stamp = self._change
        getattr(record, table)[column] = stamp(record)
        return record


def stamped(table: str, column: str, stamp: Callable[[Timeline], np.ndarray]) -> Plant:
    """A plant: what `stamp` makes of a record in place of a column of its "samples" or "groups"."""
    return lambda system: _Stamped(system, table, column, stamp)


late_stamp = stamped(
    "samples",
    "v_start",
    lambda record: np.where(record.samples["v_ready"] < 0, record.samples["v_start"], record.samples["v_ready"]),
)
"""Samples are stamped with the version current at their end instead of their start."""


def law_of(heads: np.ndarray, cells: int) -> dict[str, Estimate]:
    """Shares of the values 0 .. cells - 1 among heads `[M, ...]`, and what is left."""
    shares = {f"p[{k}]": mean_over_realizations((heads == k).astype(float)) for k in range(cells)}
    return shares | {"tail": mean_over_realizations((heads >= cells).astype(float))}


def restarts_early(system: Any) -> Any:
    """A spare ticket and a moment of training: a worker reads the weights before its own update is in them."""
    return system.replace(tickets=system.tickets + 1, train_time=1e-9)


def ticket_lost(system: Any) -> Any:
    """One ticket fewer than the system should have."""
    return system.replace(tickets=system.tickets - 1)
