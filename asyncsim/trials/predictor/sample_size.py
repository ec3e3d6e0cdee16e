"""Runs that two rates take, the power of the test over all counts, and curves that leave their band."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import proportion
from asyncsim.predicting import sizes
from asyncsim.trials._trial import Defect, Plant, Trial, units_for
from asyncsim.trials.predictor._noise import noise

_SPREAD = 2.6
"""Standard deviation of one curve leaving its band or not, over the chance that it does: 2.4 at the point below."""
_MOST = 120
"""Runs of an arm, each pair of whose counts is tested."""


class _Parts(NamedTuple):
    """What is measured of the product."""

    runs: Callable[..., int] = sizes.runs_for_rates
    differ: Callable[..., bool] = sizes.differ
    band: Callable[..., float] = sizes.band


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    parts: _Parts = plant(_Parts())
    rates, error = (point["first"], point["second"]), point["error"]
    runs = parts.runs(*rates, error=error, power=point["power"])
    counts = range(runs + 1)
    found = np.array([[parts.differ(one, two, runs, error) for two in counts] for one in counts])
    chances = [stats.binom.pmf(counts, runs, rate) for rate in rates]
    exactly = {"runs": float(runs), "power": float(chances[0] @ found @ chances[1])}
    return {name: Estimate(x, tolerance=1e-9 * x) for name, x in exactly.items()} | {
        "outside": _outside(point, parts, units_for(_SPREAD, effect, 3), seed)
    }


def _outside(point: Point, parts: _Parts, curves: int, seed: int) -> Estimate:
    """Share of curves of uniform lead times somewhere farther from the truth than their band."""
    n = point["announced"]
    times, ranks = np.sort(noise(seed, n, curves), axis=0), np.arange(n)[:, None]
    distance = np.maximum(times - ranks / n, (ranks + 1) / n - times).max(axis=0)
    return proportion(int((distance > parts.band(n, point["band_error"])).sum()), curves)


def _one_sided(parts: _Parts) -> _Parts:
    """The level of one side only."""
    return parts._replace(differ=lambda one, two, runs, error: sizes.differ(one, two, runs, 2.0 * error))


def _steps(parts: _Parts) -> _Parts:
    """Two evaluations of a run counted as two runs."""
    return parts._replace(band=lambda n, error: sizes.band(2 * n, error))


def _reach(point: Point) -> str | None:
    runs = sizes.runs_for_rates(point["first"], point["second"], point["error"], point["power"])
    few = f"rates that at most {_MOST} runs tell apart; move them apart"
    if runs > _MOST:
        return few
    return None if point["band_error"] >= 0.1 else "a band_error of at least 0.1; raise it"


_POINT: dict[str, Any] = {"first": 0.2, "second": 0.5, "error": 0.05, "power": 0.9, "announced": 8, "band_error": 0.2}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "error": 0.01, "announced": 12},),
    measure=_measure,
    defects={"level of one side": Defect(_one_sided, _POINT), "evaluations counted as runs": Defect(_steps, _POINT)},
    effect=0.02,
    reach=_reach,
    through="predict",
)
