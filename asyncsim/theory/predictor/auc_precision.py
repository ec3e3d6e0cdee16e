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
from collections.abc import Iterator

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Real
from asyncsim.theory._stated import stated

_ORDERS = 20_000


class _Setting(Declared):
    area = Real(0.02, 0.98, typical=(0.3, 0.95), example=0.85, doc="probability that a collapse scores higher")
    cases = Count(2, typical=(2, 5), example=3, doc="runs that collapse")
    controls = Count(2, typical=(2, 5), example=6, doc="runs that do not collapse")

    def joint(self) -> None:
        """Few enough orders to list."""
        orders = math.comb(self.cases + self.controls, self.cases)
        bound = f"such that orders of the runs ({orders}) <= {_ORDERS}"
        checks.require(orders <= _ORDERS, "cases", self.cases, bound, "count fewer runs")


def _apart(s: _Setting) -> float:
    """Chance that all of one kind score above all of the other."""
    theta = s.area / (1.0 - s.area)
    below = math.prod(theta * k / (theta * k + s.cases) for k in range(1, s.controls + 1))
    return below + math.prod(k / (k + theta * s.controls) for k in range(1, s.cases + 1))


def _shared(s: _Setting) -> tuple[float, float]:
    """Q_1, Q_2."""
    return s.area / (2.0 - s.area), 2.0 * s.area**2 / (1.0 + s.area)


def _variance(s: _Setting, cases: int, controls: int) -> float:
    """Of the area, by runs of either kind."""
    square, (first, second) = s.area**2, _shared(s)
    return (s.area - square + (cases - 1) * (first - square) + (controls - 1) * (second - square)) / (cases * controls)


def _stand_in(s: _Setting) -> float:
    least = 0.5 / (s.cases * s.controls)
    return least * (1.0 - least) / min(s.cases, s.controls)


def _quantities(s: _Setting, variance: float) -> dict[str, float]:
    bias = (s.area + s.area**2 - sum(_shared(s))) / (s.cases * s.controls)
    return {"area": s.area, "variance": variance, "error_square": variance + bias + _apart(s) * _stand_in(s)}


def _orders(s: _Setting) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Probability of an order, and the ranks of cases and controls in it."""
    theta, total = s.area / (1.0 - s.area), s.cases + s.controls
    for places in itertools.combinations(range(total), s.cases):
        chance, left, others = 1.0, s.cases, s.controls
        for rank in range(total):
            whole = left + theta * others
            chance *= (left if rank in places else theta * others) / whole
            left, others = left - (rank in places), others - (rank not in places)
        yield chance, np.array(places), np.array([rank for rank in range(total) if rank not in places])


def _cross_check(s: _Setting) -> dict[str, float]:
    mean = square = error = 0.0
    for chance, own, other in _orders(s):
        above = (own[:, None] > other).astype(np.float64)
        value = float(above.mean())
        placed = above.mean(1).var(ddof=1) / s.cases + above.mean(0).var(ddof=1) / s.controls
        mean, square = mean + chance * value, square + chance * (value - s.area) ** 2
        error += chance * (placed if 0.0 < value < 1.0 else _stand_in(s))
    return {"area": mean, "variance": square, "error_square": error}


claim = stated(
    id="predictor/auc-precision",
    statement="`n_1` collapses and `n_2` other runs give an area whose variance is "
    "`(A (1 - A) + (n_1 - 1)(Q_1 - A^2) + (n_2 - 1)(Q_2 - A^2))/(n_1 n_2)`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=lambda s: _quantities(s, _variance(s, s.cases, s.controls)),
    cross_check=_cross_check,
    reference="Hanley and McNeil 1982; DeLong 1988; bias derived",
    formula_defects={
        "kinds of runs exchanged": lambda s: _quantities(s, _variance(s, s.controls, s.cases)),
        "pairs taken as independent": lambda s: _quantities(s, s.area * (1.0 - s.area) / (s.cases * s.controls)),
        "largest variance for any scores": lambda s: _quantities(s, s.area * (1.0 - s.area) / min(s.cases, s.controls)),
    },
)
