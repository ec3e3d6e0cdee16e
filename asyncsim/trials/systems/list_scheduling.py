"""Generation of whole batches on a few slots, batch by batch, on the event kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim.base.records import Timeline
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import slot_freed_twice

_STEPS = 400
_SPREAD = 0.05
"""Relative standard deviation of one realization's mean step, pareto:1:1.5 apart, which stays below its bound."""
_ROUNDING = 1e-9


class _Instances(NamedTuple):
    excess: float
    load: float
    longest: float
    step_seconds: float


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    groups, samples, slots = point["groups_per_batch"], point["samples_per_group"], point["slots"]
    system = _windows.synchronous(point, slots=slots)
    count = _windows.realizations_for(_windows.spread_of(point, _SPREAD), effect, 0.0, comparisons=16, kind="bound")
    records = _windows.timelines(plant(system), _STEPS, samples, count, seed)
    instances = [_instances(record, groups * samples, slots) for record in records]
    extremes = {name: max(getattr(each, name) for each in instances) for name in ("excess", "load", "longest")}
    return {
        **{name: Estimate(value, tolerance=_ROUNDING) for name, value in extremes.items()},
        "step_seconds": _windows.mean_of(each.step_seconds for each in instances),
    }


def _instances(record: Timeline, samples: int, slots: int) -> _Instances:
    """The extremes over the batches of a record, each of the samples of one batch, and the mean seconds of a step."""
    order = np.argsort(record.samples["batch"], kind="stable")
    work, begin, end = (record.samples[name][order].reshape(-1, samples) for name in ("work", "t_submit", "t_end"))
    seconds, load, longest = end.max(axis=1) - begin.min(axis=1), work.sum(axis=1) / slots, work.max(axis=1)
    return _Instances(
        float(((seconds - load) / longest).max()),
        float((load / seconds).max()),
        float((longest / seconds).max()),
        float(record.publishes["t_install"][-1]) / _STEPS,
    )


def _reach(point: Point) -> str | None:
    return within(groups_per_batch=512, samples_per_group=64)(point)


_POINT = {
    "slots": 4,
    "groups_per_batch": 13,
    "samples_per_group": 1,
    "length": "constant:1",
    "train_time": 0.5,
    "sync_time": 0.25,
}
"""Equal works and one more than slots can share: attained."""
_EVEN = _POINT | {"groups_per_batch": 12}
_FEW = _POINT | {"slots": 1024, "groups_per_batch": 4, "length": "exponential:1"}
"""A slot for every sample: the longest decides, and what it adds to the mean load is nearly all of it."""
_HEAVY = _POINT | {"groups_per_batch": 4, "samples_per_group": 4, "length": "pareto:1:1.5", "train_time": 1.0}

trial = Trial(
    points=(_POINT, _EVEN, _FEW, _HEAVY),
    more=(_POINT | {"slots": 8, "groups_per_batch": 25}, _HEAVY | {"slots": 3, "length": "gamma:1:0.5"}),
    measure=_measure,
    defects={"a slot lost": Defect(_windows.slot_lost, _POINT), "a slot freed twice": Defect(slot_freed_twice, _HEAVY)},
    effect=0.02,
    reach=_reach,
    through="kernel",
)
