"""Areas and their errors over every order of a few exponential scores, each with its probability."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base.records import Estimate, Point
from asyncsim.predicting import scores
from asyncsim.trials._trial import Defect, Plant, Trial

_ROUNDING = 1e-9
_MOST = 15
"""Runs in all: the area is asked for each order of them."""

_Area = Callable[[np.ndarray, np.ndarray], Estimate]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    area: _Area = plant(scores.auc)
    n, m, odds = point["cases"], point["controls"], point["area"] / (1.0 - point["area"])
    chances, values, squares = [], [], []
    for places in itertools.combinations(range(n + m), n):
        is_case = np.isin(np.arange(n + m), places)
        # Of those that are left the next smallest is a case, or another run, by their rates.
        left, others = n - (np.cumsum(is_case) - is_case), m - (np.cumsum(~is_case) - ~is_case)
        chances.append(float(np.prod(np.where(is_case, left, odds * others) / (left + odds * others))))
        ranks = np.arange(n + m, dtype=np.float64)
        found = area(ranks[is_case], ranks[~is_case])
        values.append(found.value)
        squares.append(found.error**2)
    weigh = np.array(chances)
    mean = float(weigh @ values)
    spread = float(weigh @ (np.array(values) - mean) ** 2)
    named = {"area": mean, "variance": spread, "error_square": float(weigh @ squares)}
    return {name: Estimate(value, tolerance=_ROUNDING * value) for name, value in named.items()}


def _steps(area: _Area) -> _Area:
    """Steps counted as runs: every score enters five times."""
    return lambda cases, controls: area(np.repeat(cases, 5), np.repeat(controls, 5))


def _lost(area: _Area) -> _Area:
    """The run that scores lowest among those that collapse is left out."""
    return lambda cases, controls: area(np.sort(cases)[1:], controls)


def _reach(point: Point) -> str | None:
    most = f"at most {_MOST} runs; take fewer, every order of them is listed"
    return None if point["cases"] + point["controls"] <= _MOST else most


_FEW: dict[str, Any] = {"area": 0.8, "cases": 3, "controls": 5}

trial = Trial(
    points=(_FEW, {"area": 0.9, "cases": 6, "controls": 3}),
    more=({"area": 0.65, "cases": 4, "controls": 6},),
    measure=_measure,
    defects={"steps counted as runs": Defect(_steps, _FEW), "least alarming collapse left out": Defect(_lost, _FEW)},
    effect=0.02,
    reach=_reach,
    through="predict",
)
