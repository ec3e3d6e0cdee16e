"""Groups trained a second by an open loop with a bounded buffer, on the event kernel."""

from __future__ import annotations

from functools import partial

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import place_freed_twice

_SPREAD = 0.009
"""Relative standard deviation of one realization's rate at the points below (measured, rounded up)."""
_TOLERANCE = 0.003
"""A buffer of two batches is empty or full by chance for as large a share of the time, at most."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    groups, samples = point["groups_per_batch"], point["samples_per_group"]
    batches = point["batches_per_publish"]
    system = _windows.places(
        point,
        point["places"],
        groups,
        batches_per_publish=batches,
        sync_time=float(point["sync_time"]),
        generator_pauses=point["generator_pauses"],
        capacity=point["capacity"],
        overflow=point["overflow"],
    )
    publishes = _windows.publishes_for(point["places"], batches * groups)
    count = _windows.realizations_for(_SPREAD, effect, _TOLERANCE, comparisons=5)
    system = plant(_windows.staggered(system, samples))
    rate = _windows.groups_per_second(system, publishes * batches, samples, publishes // 10, count, seed, _TOLERANCE)
    return {"groups_per_second": rate}


def _reach(point: Point) -> str | None:
    limits = within(places=1024, groups_per_batch=1024, samples_per_group=64, batches_per_publish=64)(point)
    return _windows.heavy(point, "length", "train_time") or limits or _windows.overproduced(point)


_POINT = {
    "places": 64,
    "samples_per_group": 4,
    "groups_per_batch": 16,
    "batches_per_publish": 1,
    "length": "lognormal:1.0:0.8",
    "train_time": 0.25,
    "sync_time": 0.2,
    "generator_pauses": True,
    "capacity": 64,
    "overflow": "block",
}
_TRAINER_BOUND = _POINT | {"train_time": 1.0}

trial = Trial(
    points=(
        _POINT,
        _TRAINER_BOUND,
        _POINT | {"train_time": 0.15, "generator_pauses": False, "overflow": "drop_oldest"},
    ),
    more=(
        _POINT | {"train_time": 0.3, "sync_time": 0.4, "batches_per_publish": 4},
        _TRAINER_BOUND | {"length": "exponential:1", "samples_per_group": 1, "overflow": "drop_oldest"},
    ),
    measure=_measure,
    defects={
        "generators go on during a synchronization": Defect(replaced(generator_pauses=False), _POINT),
        "the trainer does not wait for the install": Defect(replaced(trainer_waits=False), _TRAINER_BOUND),
        "eight generator slots freed twice": Defect(partial(place_freed_twice, times=8), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
