"""Seconds of a synchronous step, on the event kernel."""

from __future__ import annotations

from typing import Any

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.base.records import Estimate, Point
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.systems._windows import heavy, large, mean_of, realizations_for, seconds_or_law, timelines

_STEPS = 400
_SPREAD = 0.03
"""Relative standard deviation of one realization's mean at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    groups = point["groups_per_batch"]
    system = systems.synchronous(
        groups,
        length=laws.as_law("length", point["length"]),
        train_time=seconds_or_law("train_time", point["train_time"]),
        sync_time=float(point["sync_time"]),
    ).replace(rates=(float(point["rate"]),) * groups)
    count = realizations_for(_SPREAD, effect, 0.0, comparisons=4)
    records = timelines(plant(system), _STEPS, point["samples_per_group"], count, seed)
    # Every step begins like the first, with nothing out, so there is no warm-up.
    return {"step_seconds": mean_of(float(record.publishes["t_install"][-1]) / _STEPS for record in records)}


def _reach(point: Point) -> str | None:
    return heavy(point, "length", "train_time") or large(point, groups_per_batch=1024, samples_per_group=64)


def _next_batch_early(system: Any) -> Any:
    """Tickets for two batches: the next one is generated while this one trains."""
    return system.replace(tickets=2 * system.groups_per_batch, mode="keep")


def _half_the_slots(system: Any) -> Any:
    """Every second sample waits until a slot is free."""
    return system.replace(slots=2 * system.groups_per_batch)


def _no_synchronization(system: Any) -> Any:
    """Weights move at once."""
    return system.replace(sync_time=0.0)


_POINT = {
    "groups_per_batch": 8,
    "samples_per_group": 4,
    "length": "exponential:1",
    "rate": 1.0,
    "train_time": 1.0,
    "sync_time": 0.25,
}

trial = Trial(
    claim="systems/synchronous-throughput",
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
        "the next batch begins before the install": Defect(_next_batch_early, _POINT),
        "slots for half of the samples": Defect(_half_the_slots, _POINT),
        "synchronization not waited for": Defect(_no_synchronization, _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
    elsewhere=(
        {"groups_per_batch": 1, "samples_per_group": 1, "train_time": 0.0},
        {"train_time": "exponential:2", "groups_per_batch": 64},
    ),
    refused=({"length": "pareto:1:1.5"},),
)
