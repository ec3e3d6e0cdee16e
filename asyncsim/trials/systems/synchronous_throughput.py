"""Seconds of a synchronous step, on the event kernel."""

from __future__ import annotations

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems._windows import heavy, mean_of, realizations_for, synchronous, timelines

_STEPS = 400
_SPREAD = 0.03
"""Relative standard deviation of one realization's mean at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = synchronous(point, rates=(float(point["rate"]),) * point["groups_per_batch"])
    count = realizations_for(_SPREAD, effect, 0.0, comparisons=4)
    records = timelines(plant(system), _STEPS, point["samples_per_group"], count, seed)
    # Every step begins like the first, with nothing out, so there is no warm-up.
    return {"step_seconds": mean_of(float(record.publishes["t_install"][-1]) / _STEPS for record in records)}


def _reach(point: Point) -> str | None:
    return heavy(point, "length", "train_time") or within(groups_per_batch=1024, samples_per_group=64)(point)


_POINT = {
    "groups_per_batch": 8,
    "samples_per_group": 4,
    "length": "exponential:1",
    "rate": 1.0,
    "train_time": 1.0,
    "sync_time": 0.25,
}

trial = Trial(
    points=(
        _POINT,
        _POINT
        | {"groups_per_batch": 4, "samples_per_group": 8, "length": "lognormal:1.0:0.8", "rate": 2.0}
        | {"train_time": "exponential:1.5", "sync_time": 0.0},
    ),
    more=(
        _POINT
        | {"groups_per_batch": 16, "samples_per_group": 2, "length": "pareto:1:3", "train_time": 0.5, "sync_time": 0.5},
        _POINT | {"groups_per_batch": 1, "samples_per_group": 1, "length": "constant:2", "rate": 0.5},
    ),
    measure=_measure,
    defects={
        "the next batch begins before the install": Defect(
            lambda system: system.replace(tickets=2 * system.groups_per_batch, mode="keep"), _POINT
        ),
        "slots for half of the samples": Defect(
            lambda system: system.replace(slots=2 * system.groups_per_batch), _POINT
        ),
        "synchronization not waited for": Defect(replaced(sync_time=0.0), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
