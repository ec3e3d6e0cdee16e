"""Mean staleness of an open loop whose generators are the slower side, on the event kernel."""

from __future__ import annotations

from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.systems._heads import mean_over_realizations, stationary_heads
from asyncsim.trials.systems._kernel_defects import place_freed_twice, version_off_by_one
from asyncsim.trials.systems._windows import places, realizations_for, trains_longer

_GROUPS = 24_000
"""Groups that one realization trains, and a tenth more for the start to be forgotten."""
_SPREAD = 0.012
"""Largest relative standard deviation of one realization's mean at the points below (measured)."""
_MANY = 0.002
"""The same where the places are many and the trainer has time to spare."""
_POISSON = 0.004
"""How far completions of the fewest places within reach are from a Poisson stream (measured: 0.25 percent)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    count, batch, samples = point["places"], point["groups_per_batch"], point["samples_per_group"]
    tolerance = 0.0 if _poisson(point) else _POISSON
    realizations = realizations_for(_SPREAD if tolerance == 0.0 else _MANY, effect, tolerance, 8)
    warm_up, system = max(_GROUPS // 10, 40 * count) // batch, places(point, count, batch)
    heads = stationary_heads(plant(system), warm_up + _GROUPS // batch, warm_up, realizations, seed, samples)
    estimate = mean_over_realizations(heads)
    return {"mean": estimate._replace(tolerance=max(estimate.tolerance, tolerance * estimate.value))}


def _poisson(point: Point) -> bool:
    """Whether completions are a Poisson stream exactly."""
    return laws.as_law("length", point["length"]).kind == "exponential" and point["samples_per_group"] == 1


def _point(places: int, batch: int, length: str, train_time: float, samples: int = 1) -> Point:
    return {
        "places": places,
        "groups_per_batch": batch,
        "samples_per_group": samples,
        "length": length,
        "train_time": train_time,
    }


def _reach(point: Point) -> str | None:
    if not _poisson(point) and point["places"] < 64:
        return "at least 64 places; take more, so that completions are a Poisson stream to half a percent"
    law = laws.as_law("length", point["length"])
    if (law.kind == "pareto" and law.parameters[1] < 2.0) or (law.kind == "lognormal" and law.parameters[1] > 1.5):
        return "a Pareto index of at least 2, a log-normal sigma of at most 1.5; take a lighter tail"
    return None if point["places"] <= 4096 else "at most 4096 places"


_EIGHT = _point(8, 1, "exponential:1.0", 0.0625)

trial = Trial(
    points=(_EIGHT, _point(64, 16, "lognormal:1.0:0.8", 0.25, 4), _point(8, 1, "exponential:1.0", 0.1)),
    more=(_point(64, 16, "gamma:1.0:4.0", 0.125),),
    measure=_measure,
    defects={
        "a generator slot freed twice": Defect(place_freed_twice, _EIGHT),
        "an install not counted": Defect(version_off_by_one, _EIGHT),
        "training takes longer": Defect(trains_longer(1.5), _EIGHT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
