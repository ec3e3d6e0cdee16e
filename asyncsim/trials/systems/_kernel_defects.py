"""Mistakes of an event kernel, planted into its running state: versions, counters, fates, places and publishes.

Each function takes a system and gives the same system with one mistake: a trial passes it as the plant of a defect.
What runs is the product's kernel; it is stopped once, its arrays are changed, and it goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from asyncsim.systems import _state as k
from asyncsim.systems._simulating import refuse_standstill, stepped
from asyncsim.systems._state import State
from asyncsim.systems._system import System


@dataclass(frozen=True)
class Mistaken(System):
    """A system whose kernel makes a mistake once the share `when` of the batches has trained; 1 is behind the last.

    `simulate` is the only way into the kernel, so timelines, schedules and stalenesses all have the mistake.
    """

    mistake: str = ""
    when: float = 0.05
    spare: int = 0

    def simulate(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, record: bool = True, warm: int = 0
    ) -> State:
        """The finished kernel state with the mistake in it."""
        state = self._roomy(samples_per_group).start(
            batches, samples_per_group, realization, seed, drawn=True, record=record, warm=warm
        )
        # Places for what is freed once too often: they exist, but nobody is given them.
        state.run.free -= self.spare
        for until in (max(self.batches_per_publish, int(batches * self.when)), batches):
            state, why = stepped(self, state, k.UNLIMITED, until, seed)
            refuse_standstill(self, state, why)
            if until < batches or self.when == 1.0:
                _MISTAKES[self.mistake](self, state)
            if self.when == 1.0:
                break
        return state

    def _roomy(self, samples_per_group: int) -> System:
        """The system with places to spare, whose heaps are as large as what the mistake lets run at once."""
        if not self.spare:
            return self
        time = self.mean_train_time(samples_per_group) if self.load is not None else self.train_time
        rates = self.rates + (self.rates[0],) * self.spare
        offsets = None if self.offsets is None else self.offsets + (0.0,) * self.spare
        return self.replace(rates=rates, offsets=offsets, train_time=time, load=None)


def _with(system: System, mistake: str, **options: Any) -> Mistaken:
    given = {each.name: getattr(system, each.name) for each in fields(System)}
    return Mistaken(**given, mistake=mistake, **options)


def version_off_by_one(system: System) -> Mistaken:
    """One install is not counted: from there the generators stamp the version before the one that they have."""
    return _with(system, "version")


def publish_counted_twice(system: System) -> Mistaken:
    """One install is counted twice: from there the generators stamp a version that the trainer has not reached."""
    return _with(system, "publish")


def end_stamped_early(system: System) -> Mistaken:
    """Samples are stamped at their end with the version before the one that is installed."""
    return _with(system, "end", when=1.0)


def counter_lost(system: System) -> Mistaken:
    """The count of tickets that are out is lost, as on a recovery: all of them are handed out again."""
    return _with(system, "tickets")


def place_freed_twice(system: System, times: int = 1) -> Mistaken:
    """So many places are freed once too often: each is given to two groups at once from there on."""
    return _with(system, "place", spare=times)


def slot_freed_twice(system: System) -> Mistaken:
    """Every server frees a slot once too often: it decodes a sample more than it has slots."""
    return _with(system, "slot")


def group_counted_twice(system: System) -> Mistaken:
    """One group of generation is counted twice: sums over time have it from there on, stamps do not."""
    return _with(system, "in flight")


def dropped_counted_as_trained(system: System) -> Mistaken:
    """The record says of groups that were dropped that the batch after their drop trained them."""
    return _with(system, "dropped", when=1.0)


def _version(system: Mistaken, state: State) -> None:
    state.run.installed -= 1


def _publish(system: Mistaken, state: State) -> None:
    row = state.run.installed
    for table in (state.publish, state.marks):
        table[row] = table[row - 1]
    state.run.installed += 1


def _end(system: Mistaken, state: State) -> None:
    for version in (state.sample.v_end, state.group.v_done):
        version -= version > 0


def _tickets(system: Mistaken, state: State) -> None:
    state.run.tickets += state.run.admitted - state.run.gone


def _place(system: Mistaken, state: State) -> None:
    run, ring, group = state.run, state.free, state.group
    row, left = run.first_row, system.spare
    while row >= 0 and left > 0:
        if group.stage[row] == k.IN_GENERATION:
            ring[(run.free_head + run.free) % ring.size] = group.place[row]
            run.free += 1
            left -= 1
        row = group.after[row]


def _slot(system: Mistaken, state: State) -> None:
    state.server.held -= 1


def _in_flight(system: Mistaken, state: State) -> None:
    state.run.in_flight += 1


def _dropped(system: Mistaken, state: State) -> None:
    group = state.group[: state.run.admitted]
    fate = group.fate
    rows = np.flatnonzero((fate == k.DROPPED_AGE) | (fate == k.DROPPED_OVERFLOW))
    starts = state.batch.t_start[: state.run.started]
    batch = np.minimum(np.searchsorted(starts, state.moment.t_left[rows]), starts.size - 1)
    group.fate[rows], group.batch[rows] = k.TRAINED, batch
    group.v_trained[rows] = state.batch.version[batch]


_MISTAKES: dict[str, Callable[[Mistaken, State], None]] = {
    "version": _version,
    "publish": _publish,
    "end": _end,
    "tickets": _tickets,
    "place": _place,
    "slot": _slot,
    "in flight": _in_flight,
    "dropped": _dropped,
}
