"""Mean staleness of an open loop whose buffer drops its oldest group, on the event kernel."""

from __future__ import annotations

from asyncsim.base import laws
from asyncsim.base.records import Timeline
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import version_off_by_one

_SPREAD = 0.005
"""Relative standard deviation of one realization's means at the points below (measured, rounded up)."""
_BLUR = 0.14
"""Times 1/P: share by which arrivals by chance move the means (0.4 percent at P = 32, 0.7 at P = 16, measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    count, groups, samples = point["places"], point["groups_per_batch"], point["samples_per_group"]
    system = _windows.staggered(
        _windows.places(point, count, groups, capacity=point["capacity"], overflow="drop_oldest"), samples
    )
    batches, tolerance = (
        _windows.publishes_for(count, groups),
        _BLUR / groups if system.length.random else _BLUR / 100.0,
    )
    realizations = _windows.realizations_for(_SPREAD, effect, tolerance, comparisons=5)
    records = _windows.timelines(plant(system), batches, samples, realizations, seed)
    mean, queue = zip(*(_stalenesses(record, batches // 10) for record in records), strict=True)
    return {"mean": _windows.mean_of(mean, tolerance), "in_queue": _windows.mean_of(queue, tolerance)}


def _stalenesses(record: Timeline, warm: int) -> tuple[float, float]:
    """Mean staleness of heads behind the warm-up, and the part of it from the end of generation on."""
    groups = record.groups
    late = groups["batch"] >= warm
    trained, head, done = (groups[name][late] for name in ("v_train", "v_start", "v_done"))
    return float((trained - head).mean()), float((trained - done).mean())


def _reach(point: Point) -> str | None:
    if point["groups_per_batch"] < 16 and laws.as_law("length", point["length"]).random:
        return "groups_per_batch of at least 16; raise it, staleness varies with smaller ones"
    limits = within(places=1024, groups_per_batch=1024, samples_per_group=64, capacity=8192)(point)
    return _windows.heavy(point, "length") or limits or _windows.overproduced(point)


_POINT = {
    "places": 256,
    "samples_per_group": 4,
    "groups_per_batch": 64,
    "length": "lognormal:1.0:0.8",
    "train_time": 0.74,
    "capacity": 128,
}
_FAST = _POINT | {"samples_per_group": 1, "length": "exponential:1", "train_time": 0.15, "capacity": 256}
_STEP = _POINT | {"places": 16, "samples_per_group": 1, "groups_per_batch": 16, "capacity": 32, "length": "constant:1"}

trial = Trial(
    points=(_POINT, _FAST, _STEP | {"train_time": 2.8}),
    more=(_POINT | {"train_time": 1.2206, "capacity": 64}, _FAST | {"train_time": 0.7, "capacity": 128}),
    measure=_measure,
    defects={
        "versions one behind": Defect(version_off_by_one, _FAST),
        "freshest group first": Defect(replaced(order="freshest"), _POINT),
        "a full buffer blocks": Defect(_windows.blocks, _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
