"""Time averages of the kernel's counts against the stamps of the groups that it counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base.records import Timeline
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped, within
from asyncsim.trials.systems._heads import ticket_lost
from asyncsim.trials.systems._kernel_defects import group_counted_twice
from asyncsim.trials.systems._windows import heavy, mean_of, places, realizations_for, timelines

_GROUPS = 20_000
_ROUNDING = 1e-9
"""Of sums over all events, relative to the sums of all stamps."""
_SPREAD = 0.03
"""Relative standard deviation of one realization's level or delay at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    """One history from empty to the last batch: its counts from the summary of a run, its stamps from a record.

    The seconds of groups that the end cuts off are taken out of the counts, so what is left begins and ends empty.
    """
    groups, samples = point["groups_per_batch"], point["samples_per_group"]
    batches = -(-_GROUPS // groups)
    system = plant(places(point, point["places"], groups, tickets=point["tickets"], release=point["release"]))
    sums = system.simulate(batches, samples, 0, seed, record=False).sums
    record = system.timeline(batches, samples, seed=seed)
    ratios = {
        "in_flight": _ratio(float(sums.in_flight), float(sums.seconds), record, samples, "t_done"),
        "outstanding": _ratio(float(sums.outstanding), float(sums.seconds), record, samples, "t_left"),
    }
    return ratios | (_levels(system, point, effect, seed) if "exponential" in str(point["train_time"]) else {})


def _levels(system: Any, point: Point, effect: float, seed: int) -> dict[str, Estimate]:
    """Groups in generation and seconds of delay behind the warm-up, from the stamps of independent realizations."""
    warm, samples = max(400, 40 * point["tickets"]), point["samples_per_group"]
    count = realizations_for(_SPREAD, effect, 0.0, comparisons=10)
    levels, delays = [], []
    for record in timelines(system, 10 * warm, samples, count, seed):
        begin = record.samples["t_start"].reshape(-1, samples).min(axis=1)
        done, exits = (np.nan_to_num(record.groups[name], nan=np.inf) for name in ("t_done", "t_left"))
        low, high = record.publishes["t_install"][[warm, -1]]
        inside = np.clip(np.minimum(done, high) - np.maximum(begin, low), 0.0, None)
        levels.append(float(np.nan_to_num(inside).sum()) / (high - low))
        late = (exits > low) & (exits <= high)
        delays.append(float((exits - begin)[late].mean()))
    return {"generating": mean_of(levels), "delay": mean_of(delays)}


def _ratio(integral: float, seconds: float, record: Timeline, samples: int, until: str) -> Estimate:
    """Time average of a count over groups a second times mean seconds, of the groups that were trained."""
    begin = record.samples["t_start"].reshape(-1, samples).min(axis=1)
    durations = np.minimum(np.nan_to_num(record.groups[until], nan=np.inf), record.header["seconds"]) - begin
    trained = record.groups["fate"] == "trained"
    rate = float(trained.sum()) / seconds
    average = (integral - float(durations[~trained].sum())) / seconds
    return Estimate(
        average / (rate * float(durations[trained].mean())), tolerance=_ROUNDING, samples=int(trained.sum())
    )


class _Stamped(Wrapped):
    """A system whose record has another stamp in place of one of its own."""

    def __init__(self, system: Any, column: str, stamp: Callable[[Timeline], np.ndarray]) -> None:
        super().__init__(system)
        self._column, self._stamp = column, stamp

    def timeline(self, *arguments: Any, **options: Any) -> Timeline:
        """The system's record with one column of its groups overwritten."""
        record = self._inner.timeline(*arguments, **options)
        record.groups[self._column] = self._stamp(record)
        return record


def _first_end(record: Timeline) -> np.ndarray:
    """When the first sample of each group ended."""
    ends = record.samples["t_end"].reshape(len(record.groups["group"]), -1)
    return np.where(np.isnan(record.groups["t_done"]), np.nan, ends.min(axis=1))


def _entered(record: Timeline) -> np.ndarray:
    """When each group that left had entered the buffer."""
    return np.where(np.isnan(record.groups["t_left"]), np.nan, record.groups["t_ready"])


def _reach(point: Point) -> str | None:
    limits = within(places=1024, tickets=4096, groups_per_batch=1024, samples_per_group=64)(point)
    return limits or (heavy(point, "length") if "exponential" in str(point["train_time"]) else None)


_POINT = {
    "places": 6,
    "tickets": 12,
    "release": "publish",
    "groups_per_batch": 4,
    "samples_per_group": 3,
    "length": "pareto:1:1.5",
    "train_time": 0.8,
}
_LOOP = _POINT | {
    "places": 8, "tickets": 8, "groups_per_batch": 1, "length": "lognormal:1.0:0.8", "train_time": "exponential:0.4",
}  # fmt: skip
"""A closed loop, whose levels follow from its settings."""
_LIGHT = _POINT | {"places": 16, "tickets": 8, "samples_per_group": 2, "length": "exponential:1", "train_time": 0.5}

trial = Trial(
    points=(_POINT, _LIGHT | {"release": "dequeue"}, _LOOP),
    more=(_LIGHT | {"groups_per_batch": 8, "samples_per_group": 8, "length": "constant:1"},),
    measure=_measure,
    defects={
        "a group counted twice": Defect(group_counted_twice, _POINT),
        "a group's end taken from its first sample": Defect(
            lambda system: _Stamped(system, "t_done", _first_end), _LIGHT
        ),
        "seconds in the buffer left out": Defect(lambda system: _Stamped(system, "t_left", _entered), _LIGHT),
        "a group permit lost, in counts and stamps alike": Defect(ticket_lost, _LOOP),
        "two generator slots lost, in counts and stamps alike": Defect(
            lambda system: system.replace(rates=system.rates[:-2]), _LOOP
        ),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
