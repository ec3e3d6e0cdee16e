"""Mistakes of an event kernel, planted into its running state: versions, counters, fates, places and publishes.

Each function applies a mistake to a state, and is a plant: from a system to the same system with the mistake. What runs
is the product's kernel; it is stopped once, its arrays are changed, and it goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps

import numpy as np

from asyncsim.systems import _state as k
from asyncsim.systems._state import State
from asyncsim.systems._system import System, refuse_standstill, stepped


@dataclass(frozen=True)
class Mistaken(System):
    """A system with a kernel defect after a fraction `when` of the batches has trained; 1 is after the last one."""

    mistake: str = ""
    when: float = 0.05
    spare: int = 0

    def simulate(
        self, batches: int, samples_per_group: int, realization: int, seed: int, *, record: bool = True, warm: int = 0
    ) -> State:
        """Simulate the system, inject the defect, and return the finished kernel state."""
        size = batches, samples_per_group, realization, seed
        state = self._roomy(samples_per_group).start(*size, drawn=True, record=record, warm=warm)
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
        """The system with spare slots, so that its heaps hold the extra groups that the mistake starts."""
        if not self.spare:
            return self
        time = self.mean_train_time(samples_per_group) if self.load is not None else self.train_time
        rates = self.rates + (self.rates[0],) * self.spare
        offsets = None if self.offsets is None else self.offsets + (0.0,) * self.spare
        return self.replace(rates=rates, offsets=offsets, train_time=time, load=None)


_MISTAKES: dict[str, Callable[[Mistaken, State], None]] = {}


def _plant(
    when: float = 0.05, spare: int = 0
) -> Callable[[Callable[[Mistaken, State], None]], Callable[..., Mistaken]]:
    """Decorator that registers a mistake and returns its plant."""

    def of(mistake: Callable[[Mistaken, State], None]) -> Callable[..., Mistaken]:
        _MISTAKES[mistake.__name__] = mistake

        @wraps(mistake)
        def plant(system: System, times: int = spare) -> Mistaken:
            settings = {each.name: getattr(system, each.name) for each in fields(System)}
            return Mistaken(**settings, mistake=mistake.__name__, when=when, spare=times)

        return plant

    return of


@_plant()
def version_off_by_one(system: Mistaken, state: State) -> None:
    """Defect: one install is not counted, so that generators stamp the previous version from then on."""
    state.run.installed -= 1


@_plant()
def publish_counted_twice(system: Mistaken, state: State) -> None:
    """Defect: one install is counted twice, so that generators stamp a version that the trainer has not reached."""
    row = state.run.installed
    for table in (state.publish, state.marks):
        table[row] = table[row - 1]
    state.run.installed += 1


@_plant(when=1.0)
def end_stamped_early(system: Mistaken, state: State) -> None:
    """Defect: samples are stamped at their end with the version before the installed one."""
    for version in (state.sample.v_end, state.group.v_done):
        version -= version > 0


@_plant()
def counter_lost(system: Mistaken, state: State) -> None:
    """Defect: the count of permits in use is lost, as after a crash, and all permits are handed out again."""
    state.run.tickets += state.run.admitted - state.run.gone


@_plant(spare=1)
def place_freed_twice(system: Mistaken, state: State) -> None:
    """Defect: slots are freed once too often, `times` times in all; each then serves two groups at once."""
    run, ring, group = state.run, state.free, state.group
    row, count = run.first_row, system.spare
    while row >= 0 and count > 0:
        if group.stage[row] == k.IN_GENERATION:
            ring[(run.free_head + run.free) % ring.size] = group.place[row]
            run.free += 1
            count -= 1
        row = group.after[row]


def eight_places_freed_twice(system: System) -> Mistaken:
    """Defect: eight slots are freed once too often."""
    return place_freed_twice(system, times=8)


@_plant()
def slot_freed_twice(system: Mistaken, state: State) -> None:
    """Defect: every server frees one slot too many, and decodes one sample more than it has slots."""
    state.server.held -= 1


@_plant()
def group_counted_twice(system: Mistaken, state: State) -> None:
    """Defect: one group in generation is counted twice, which changes sums over time but no stamps."""
    state.run.in_flight += 1


@_plant(when=1.0)
def dropped_counted_as_trained(system: Mistaken, state: State) -> None:
    """Defect: dropped groups are recorded as trained by the next batch after their drop."""
    group = state.group[: state.run.admitted]
    fate = group.fate
    rows = np.flatnonzero((fate == k.DROPPED_AGE) | (fate == k.DROPPED_OVERFLOW))
    starts = state.batch.t_start[: state.run.started]
    batch = np.minimum(np.searchsorted(starts, state.moment.t_left[rows]), starts.size - 1)
    group.fate[rows], group.batch[rows] = k.TRAINED, batch
    group.v_trained[rows] = state.batch.version[batch]


@_plant(when=1.0)
def keeps_any(system: Mistaken, state: State) -> None:
    """Defect: the record marks the samples with the lowest numbers as kept, whichever finished first."""
    phase = state.sample.phase[: state.run.admitted * state.settings.samples].reshape(-1, state.settings.samples)
    finished = (phase == k.CANCELLED).any(axis=1)
    first = np.arange(state.settings.samples) < state.settings.samples - state.settings.redundant
    phase[finished] = np.where(first, k.OVER_SAMPLE, k.CANCELLED)


@_plant(when=1.0)
def cancelled_counted_as_trained(system: Mistaken, state: State) -> None:
    """Defect: cancelled samples are recorded with the fate of their group."""
    state.sample.phase[state.sample.phase == k.CANCELLED] = k.OVER_SAMPLE


@_plant(when=1.0)
def cancelled_run_on(system: Mistaken, state: State) -> None:
    """Defect: cancelled samples are generated to their end before they are discarded."""
    cancelled = state.sample.phase == k.CANCELLED
    state.sample.wasted[cancelled] = state.sample.work[cancelled]
