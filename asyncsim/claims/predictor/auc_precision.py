r"""How precisely n_1 runs that collapse and n_2 that do not give an area A, and what the estimated error says of it.

Var = (A (1 - A) + (n_1 - 1)(Q_1 - A^2) + (n_2 - 1)(Q_2 - A^2))/(n_1 n_2) for any scores, Q_1 the chance that two
collapses both score above one other run, Q_2 that one does above two others. Exponential scores, those of other runs
theta = A/(1 - A) times smaller, have Q_1 = A/(2 - A), Q_2 = 2 A^2/(1 + A). Squared, the error made of placements is
too large by (A + A^2 - Q_1 - Q_2)/(n_1 n_2) on average. Where no score is out of place, it would be 0, and e (1 - e)/
min(n_1, n_2) stands in, e = 1/(2 n_1 n_2). Derivation: covariances of pairs that share a run. Domain: exponential
scores, at most 20,000 orders. Second route: every order of the runs with its probability, the next smallest score at a
time. Source: Hanley and McNeil 1982; DeLong 1988; the bias is derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import checks
from asyncsim.base.declared import Count, Real
from asyncsim.base.records import Estimate, Point
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Plant

_ORDERS = 20_000


def _apart(s: AucPrecision) -> float:
    """Chance that all of one kind score above all of the other."""
    theta = s.area / (1.0 - s.area)
    below = math.prod(theta * k / (theta * k + s.cases) for k in range(1, s.controls + 1))
    return below + math.prod(k / (k + theta * s.controls) for k in range(1, s.cases + 1))


def _shared(s: AucPrecision) -> tuple[float, float]:
    """Q_1, Q_2."""
    return s.area / (2.0 - s.area), 2.0 * s.area**2 / (1.0 + s.area)


def _variance(s: AucPrecision, cases: int, controls: int) -> float:
    """Of the area, by runs of either kind."""
    square, (first, second) = s.area**2, _shared(s)
    return (s.area - square + (cases - 1) * (first - square) + (controls - 1) * (second - square)) / (cases * controls)


def _stand_in(s: AucPrecision) -> float:
    least = 0.5 / (s.cases * s.controls)
    return least * (1.0 - least) / min(s.cases, s.controls)


def _quantities(s: AucPrecision, variance: float) -> dict[str, float]:
    bias = (s.area + s.area**2 - sum(_shared(s))) / (s.cases * s.controls)
    return {"area": s.area, "variance": variance, "error_square": variance + bias + _apart(s) * _stand_in(s)}


def _orders(s: AucPrecision) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Probability of an order, and the ranks of cases and controls in it."""
    theta, total = s.area / (1.0 - s.area), s.cases + s.controls
    for places in itertools.combinations(range(total), s.cases):
        chance, left, others = 1.0, s.cases, s.controls
        for rank in range(total):
            whole = left + theta * others
            chance *= (left if rank in places else theta * others) / whole
            left, others = left - (rank in places), others - (rank not in places)
        yield chance, np.array(places), np.array([rank for rank in range(total) if rank not in places])


_ROUNDING = 1e-9
_MOST = 15
"""Runs in all: the area is asked for each order of them."""
_Area = Callable[[np.ndarray, np.ndarray], Estimate]


def _steps(area: _Area) -> _Area:
    """Steps counted as runs: every score enters five times."""
    return lambda cases, controls: area(np.repeat(cases, 5), np.repeat(controls, 5))


def _lost(area: _Area) -> _Area:
    """The run that scores lowest among those that collapse is left out."""
    return lambda cases, controls: area(np.sort(cases)[1:], controls)


_FEW: dict[str, Any] = {"area": 0.8, "cases": 3, "controls": 5}


class AucPrecision(Claim):
    """`n_1` collapses and `n_2` other runs give an area whose variance is `(A (1 - A) + (n_1 - 1)(Q_1 - A^2) + (n_2
    - 1)(Q_2 - A^2))/(n_1 n_2)`
    """

    kind, source = "expectation", "Hanley and McNeil 1982; DeLong 1988; bias derived"
    through = "predict"

    area = Real(0.02, 0.98, typical=(0.3, 0.95), example=0.85, doc="probability that a collapse scores higher")
    cases = Count(2, typical=(2, 5), example=3, doc="runs that collapse")
    controls = Count(2, typical=(2, 5), example=6, doc="runs that do not collapse")

    def joint(self) -> None:
        """Few enough orders to list."""
        orders = math.comb(self.cases + self.controls, self.cases)
        bound = f"such that orders of the runs ({orders}) <= {_ORDERS}"
        checks.require(orders <= _ORDERS, "cases", self.cases, bound, "count fewer runs")

    def predict(s) -> dict[str, float]:
        return _quantities(s, _variance(s, s.cases, s.controls))

    def check(s) -> dict[str, float]:
        mean = square = error = 0.0
        for chance, own, other in _orders(s):
            above = (own[:, None] > other).astype(np.float64)
            value = float(above.mean())
            placed = above.mean(1).var(ddof=1) / s.cases + above.mean(0).var(ddof=1) / s.controls
            mean, square = mean + chance * value, square + chance * (value - s.area) ** 2
            error += chance * (placed if 0.0 < value < 1.0 else _stand_in(s))
        return {"area": mean, "variance": square, "error_square": error}

    wrong = {
        "kinds of runs exchanged": lambda s: _quantities(s, _variance(s, s.controls, s.cases)),
        "pairs taken as independent": lambda s: _quantities(s, s.area * (1.0 - s.area) / (s.cases * s.controls)),
        "largest variance for any scores": lambda s: _quantities(s, s.area * (1.0 - s.area) / min(s.cases, s.controls)),
    }

    points = (_FEW, {"area": 0.9, "cases": 6, "controls": 3})
    more = ({"area": 0.65, "cases": 4, "controls": 6},)

    @staticmethod
    def reach(point: Point) -> str | None:
        most = f"at most {_MOST} runs; take fewer, every order of them is listed"
        return None if point["cases"] + point["controls"] <= _MOST else most

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        area: _Area = plant(sim.predicting.scores.auc)
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

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {"steps counted as runs": Defect(_steps, _FEW), "least alarming collapse left out": Defect(_lost, _FEW)}
