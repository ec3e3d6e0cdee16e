"""Feeds, which pass a schedule to the learning loop batch by batch."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base import checks, records

LengthsOf = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(realization int64 [k], trajectory int64 [k], token version int32 [k, T]) -> work in tokens, float64 [k]."""
USUAL = {"epochs": 1, "minibatches": 1, "cut": "groups"}
"""How a batch is trained unless a source recommends otherwise."""
GROUPS = ("num_generations", "n_samples_per_prompt", "attempts", "grpo_group_size", "group_size")
"""Options of presets that say how many samples a group has."""


def recommended(source: Any, name: str) -> Any:
    """The value of `epochs`, `minibatches` or `cut` that a source recommends, else the default."""
    return source.recommended.get(name, USUAL[name])


def samples_of(source: Any, given: Any, usual: Any, write: str = "") -> Any:
    """Samples per group: those of the source's own option, else as `given`, else `usual`; refuses two numbers."""
    for own, size in getattr(source, "knobs", {}).items():
        if own in GROUPS:
            call = f"{write}{own}={given} for both" if write else f"sim.systems.{source.name}(..., {own}={given})"
            bound = f"{own} = {size} of {source.name}"
            checks.require(given in (None, size), "samples_per_group", given, bound, f"write {call}")
            return size
    return usual if given is None else given


def updates_of(source: Any) -> int:
    """Recommended number of updates per batch: minibatches times epochs.

    >>> from asyncsim.systems import m2po
    >>> updates_of(m2po(2, length=1.0, load=1.0))
    4
    """
    return int(recommended(source, "epochs")) * int(recommended(source, "minibatches"))


class Source:
    """Properties of a system that a spec needs before a run, with their defaults.

    Base class of event systems, imposed schedules and logs. `coupled`: whether lengths come from the policy, so that
    the loop has to step the system. `mode`: how an install affects samples in flight, None if each has one version.
    `tickets`: permits, the maximum number of outstanding groups, None if no limit is known. `redundant`: samples that a
    group starts and numbers beyond those that it keeps.
    """

    coupled = False
    redundant: Any = 0
    mode: Any = None
    tickets: Any = None

    name: Any
    knobs: Any
    groups_per_batch: Any
    batches_per_publish: Any

    def describe(self) -> dict[str, Any]:
        """All parameters of the system, in a form that JSON can hold."""
        counts = {"groups_per_batch": self.groups_per_batch, "batches_per_publish": self.batches_per_publish}
        return {"name": self.name, "knobs": records.plain(self.knobs), **counts}

    def feed(self, batches: int, samples_per_group: int, tokens: int, realizations: int, seed: int) -> Any:
        """Feed of the system's schedule, batch by batch."""
        known: Any = self
        return EagerFeed(known.schedule(batches, samples_per_group, tokens, realizations, seed))


class EagerFeed:
    """Feed of a schedule that is known in advance, such as a saved or imposed one.

    Version v exists from batch `v * batches_per_publish` on, the first that is trained at it. An unused version
    is retired at that batch. Raises `InputError` for a batch beyond the end of the schedule.
    """

    def __init__(self, schedule: records.Schedule) -> None:
        self.schedule = schedule
        self._taken = 0
        # For every batch the versions that exist by then and are used by no later one.
        train_version = schedule.train_version
        published = int(train_version[-1]) + 1 if schedule.batches else 0
        # One cell more than there are versions: -1, the unknown version, writes into it.
        last = np.full(published + 1, -1)
        # A view along whose axis nothing varies is looked at once.
        compact = schedule.version[tuple(slice(0, 1 if stride == 0 else None) for stride in schedule.version.strides)]
        for batch in range(schedule.batches):
            last[compact[:, min(batch, compact.shape[1] - 1)]] = batch
        self._retiring: list[list[int]] = [[] for _ in range(schedule.batches)]
        for version in range(published):
            self._retiring[max(int(last[version]), version * schedule.batches_per_publish)].append(version)

    def take(self, batch: int, lengths_of: LengthsOf | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Versions and trajectory ids of one batch; `lengths_of` is unused, since every version is known."""
        checks.integer("batch", batch, 0, "make the schedule with more batches", self.schedule.batches - 1)
        self._taken = max(self._taken, batch + 1)
        return self.schedule.version[:, batch], self.schedule.trajectory[:, batch]

    def retired(self, batch: int) -> list[int]:
        """Published versions that no batch after `batch` needs, each returned for one batch only."""
        return list(self._retiring[batch])

    def record(self) -> records.Schedule:
        """The schedule of the batches taken so far."""
        return head(self.schedule, self._taken)

    def keeping(self) -> None:
        """Do nothing, because the feed's schedule is already complete."""

    def packed(self) -> dict[str, Any]:
        """Feed state for a checkpoint: the number of batches taken."""
        return {"taken": self._taken}

    def restore(self, tree: dict[str, Any]) -> None:
        """Restore the number of batches taken from the state of a checkpoint."""
        self._taken = tree["taken"]


def head(schedule: records.Schedule, batches: int, rows: np.ndarray | None = None) -> records.Schedule:
    """The first `batches` batches of a schedule, for all realizations (as views) or for the given ones."""
    pick: slice | np.ndarray = slice(None) if rows is None else rows
    work = None if schedule.work is None else schedule.work[pick, :batches]
    seconds = None if schedule.seconds is None else schedule.seconds[pick, :batches]
    version, trajectory = schedule.version[pick, :batches], schedule.trajectory[pick, :batches]
    return dataclasses.replace(schedule, version=version, trajectory=trajectory, work=work, seconds=seconds)
