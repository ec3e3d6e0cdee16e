"""Staleness of workers that restart at once while an update takes several deliveries, on the event kernel."""

from __future__ import annotations

from asyncsim.base import laws
from asyncsim.systems._system import System
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for, within
from asyncsim.trials.systems._heads import law_of, mean_over_realizations, stationary_heads
from asyncsim.trials.systems._kernel_defects import place_freed_twice, version_off_by_one
from asyncsim.trials.systems._windows import heavy

_DELIVERIES = 12_000
_SPREAD = 0.05
"""Largest standard deviation of one realization's quantity at the points below, by its scale (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    workers, batch, cells = point["workers"], point["groups_per_batch"], point["cells"]
    realizations = max(24, units_for(_SPREAD, effect, 32))
    rates = (1.0,) * workers if point.get("rates") is None else tuple(point["rates"])
    system = System(
        "workers", {}, laws.as_law("law", point["law"]), rates, groups_per_batch=batch, mode="pin", train_time=0.0
    )
    warm_up = (40 * workers + 200) // batch + 1
    updates = warm_up + max(_DELIVERIES, 40 * workers) // batch
    heads = stationary_heads(plant(system), updates, warm_up, realizations, seed)
    return {"mean": mean_over_realizations(heads)} | (law_of(heads, cells) if cells else {})


def _point(workers: int, batch: int, law: str, cells: int = 0, rates: tuple[float, ...] | None = None) -> Point:
    return {"workers": workers, "groups_per_batch": batch, "law": law, "cells": cells, "rates": rates}


_EIGHT = _point(8, 4, "exponential:1.0", 6)


def _reach(point: Point) -> str | None:
    """Heavy tails forget their start too slowly for a stationary mean."""
    return heavy(point, "law", index=2.5, shape=0.0) or within(cells=64, workers=1000)(point)


trial = Trial(
    points=(_EIGHT, _point(6, 4, "exponential:1.0", 5, (1.0, 1.0, 2.0, 2.0, 4.0, 6.0))),
    more=(_point(8, 3, "lognormal:1.0:0.8"), _point(6, 4, "pareto:1.0:2.5")),
    measure=_measure,
    defects={
        "restart before the own update is written": Defect(replaced(train_time=1e-9), _EIGHT),
        "a generator slot freed twice": Defect(place_freed_twice, _EIGHT),
        "an install not counted": Defect(version_off_by_one, _EIGHT),
    },
    effect=0.05,
    reach=_reach,
    through="kernel",
)
