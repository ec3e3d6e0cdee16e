"""Seconds a batch where several batches share a few slots, on the event kernel."""

from __future__ import annotations

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, within
from asyncsim.trials.systems import _windows

_BATCHES = 240
_WARM = 40
_SPREAD = 0.04
"""Relative standard deviation of one realization's mean at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    groups = point["groups_per_batch"]
    out = (point["ahead"] + 1) * groups
    system = _windows.places(point, out, groups, tickets=out, release="publish", slots=point["slots"])
    count = _windows.realizations_for(_windows.spread_of(point, _SPREAD), effect, 0.0, comparisons=8, kind="bound")
    records = _windows.timelines(plant(system), _BATCHES, point["samples_per_group"], count, seed)
    intervals = (_windows.interval(record, _WARM) for record in records)
    return {"batch_seconds": _windows.mean_of(seconds / batches for batches, seconds in intervals)}


def _reach(point: Point) -> str | None:
    limits = within(groups_per_batch=512, samples_per_group=64, ahead=8)(point)
    return _windows.heavy(point, "length", "train_time") or limits


_POINT = {
    "slots": 64,
    "groups_per_batch": 65,
    "samples_per_group": 1,
    "ahead": 0,
    "length": "constant:1",
    "train_time": 2.0,
}
"""Equal works and one more than slots: 0.996 of the bound, of which the straggler is a quarter."""
_RANDOM = _POINT | {"slots": 4096, "groups_per_batch": 64, "length": "exponential:1", "train_time": 0.5}
"""A slot for every sample: the longest decides."""
_AHEAD = _POINT | {"slots": 4, "groups_per_batch": 64, "samples_per_group": 4, "ahead": 1, "train_time": 0.3}
"""Few slots: the load decides."""
_TRAINING = _AHEAD | {"groups_per_batch": 4, "samples_per_group": 1, "train_time": 200.0}
_ONE_SLOT_EACH = _TRAINING | {"slots": 1024, "train_time": 0.001}
_LONGEST = _ONE_SLOT_EACH | {
    "groups_per_batch": 1,
    "samples_per_group": 64,
    "slots": 8192,
    "length": "empirical:0.5:1:1.5:2",
}
"""So many samples a group that each group and the whole pool have the same longest."""

trial = Trial(
    points=(_POINT, _RANDOM, _AHEAD, _TRAINING, _ONE_SLOT_EACH, _LONGEST),
    more=(
        _AHEAD | {"length": "gamma:1:4", "train_time": 0.2},
        _AHEAD | {"groups_per_batch": 16, "ahead": 3, "length": "exponential:1"},
    ),
    measure=_measure,
    defects={
        "a slot lost": Defect(_windows.slot_lost, _AHEAD),
        "slower with more samples at once": Defect(
            lambda system: system.replace(decode=tuple(max(0.2, 1.0 - 0.05 * n) for n in range(system.slots))), _POINT
        ),
    },
    effect=0.04,
    reach=_reach,
    through="kernel",
)
