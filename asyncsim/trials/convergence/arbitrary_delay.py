"""Mean squared gradient norm of descent on a quadratic under schedules whose delays can be counted by hand."""

from __future__ import annotations

from typing import Any

from asyncsim import schedules
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.convergence._descent import mean_square


def _schedule(point: Point) -> Any:
    """A constant delay, or 0, 1, ..., maximum in turn, with as many in flight; None for any other."""
    if point["mean"] == point["maximum"] == point["in_flight"]:
        return schedules.fixed(point["maximum"])
    if 2 * point["mean"] == point["maximum"] == point["in_flight"]:
        return schedules.sawtooth(point["maximum"] + 1)
    return None


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return mean_square(point, _schedule(point), 5, effect, seed, plant)


def _reach(point: Point) -> str | None:
    if _schedule(point) is not None:
        return None
    return (
        f"mean = {point['mean']}: must be maximum or half of it, in_flight = maximum; choose a constant or a sawtooth"
    )


_TIGHT = {
    "curvature": 1.0,
    "maximum": 0,
    "mean": 0.0,
    "in_flight": 0,
    "step": 1.0,
    "noise": 1.0,
    "start": 1.0,
    "updates": 400,
}
_DELAYED = {**_TIGHT, "maximum": 1, "mean": 1.0, "in_flight": 1, "step": 0.5, "start": 0.0}
"""The largest step that a delay allows: 0.60 of the bound, but 1.19 of what it would be without the delay's noise."""
_CONSTANT = {**_TIGHT, "maximum": 4, "mean": 4.0, "in_flight": 4, "step": 0.16}
_SAWTOOTH = {**_TIGHT, "maximum": 7, "mean": 3.5, "in_flight": 7, "step": 0.09, "updates": 800}

trial = Trial(
    points=(_TIGHT, {**_TIGHT, "start": 50.0, "updates": 4}, _DELAYED, _CONSTANT, _SAWTOOTH),
    more=({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000},),
    measure=_measure,
    reach=_reach,
    defects={"off-by-one version": Defect(off_by_one_version, _DELAYED)},
    effect=0.05,
    through="loop",
    loose=frozenset({"noise of the staleness"}),
)
