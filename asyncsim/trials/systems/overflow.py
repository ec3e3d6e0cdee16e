"""Groups lost by a full buffer, and the lengths of what is trained, on the event kernel."""

from __future__ import annotations

import math

from asyncsim.base.records import Timeline
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import dropped_counted_as_trained

_SPREAD = 0.015
"""Relative standard deviation of one realization's numbers at the points below (measured, rounded up)."""
_TOLERANCE = 0.002
"""A buffer empty by chance, and lengths biased by an order of 1/places (both below 0.1 percent at 16 places)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    count, groups, samples = point["places"], point["groups_per_batch"], point["samples_per_group"]
    system = _windows.places(point, count, groups, capacity=point["capacity"], overflow="drop_oldest")
    batches = _windows.publishes_for(count, groups)
    realizations = _windows.realizations_for(_SPREAD, effect, _TOLERANCE, comparisons=6)
    records = _windows.timelines(plant(_windows.staggered(system, samples)), batches, samples, realizations, seed)
    rows = [_summarize(record, batches // 10, samples) for record in records]
    dropped, length = zip(*rows, strict=True)
    return {
        "dropped_fraction": _windows.mean_of(dropped, _TOLERANCE),
        "mean_length": _windows.mean_of(length, _TOLERANCE),
    }


def _summarize(record: Timeline, warm: int, samples: int) -> tuple[float, float]:
    """Share of groups that overflowed behind the warm-up, and mean length of those trained."""
    groups = record.groups
    late = groups["t_left"] >= record.batches["t_start"][warm]
    trained, dropped = (late & (groups["fate"] == fate) for fate in ("trained", "dropped_overflow"))
    work = record.samples["work"].reshape(-1, samples)[trained]
    total = float(trained.sum() + dropped.sum())
    return float(dropped.sum()) / total, float(work.mean()) if work.size else math.nan


def _reach(point: Point) -> str | None:
    if point["places"] < 16:
        return "places of at least 16; raise them, few places bias the lengths that are trained"
    limits = within(places=1024, groups_per_batch=1024, samples_per_group=64)(point)
    return _windows.heavy(point, "length", "train_time") or limits or _windows.overproduced(point)


_POINT = {
    "places": 64,
    "samples_per_group": 4,
    "groups_per_batch": 16,
    "length": "lognormal:1.0:0.8",
    "train_time": 0.7323,
    "capacity": 32,
}

trial = Trial(
    points=(_POINT, _POINT | {"samples_per_group": 1, "length": "exponential:1", "train_time": 0.75}),
    more=(_POINT | {"train_time": 1.2206},),
    measure=_measure,
    defects={
        "dropped groups counted as trained": Defect(dropped_counted_as_trained, _POINT),
        "a full buffer blocks": Defect(_windows.blocks, _POINT),
        "old groups cut in generation": Defect(replaced(max_age=1, age_at_pack="all"), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
