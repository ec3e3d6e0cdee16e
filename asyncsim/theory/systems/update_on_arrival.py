r"""Mean staleness under update on arrival is workers - 1, for every service law.

E[s] = N - 1. Derivation: a gradient's staleness counts the updates by others while it was in flight; at every update
exactly the N - 1 other gradients are in flight, and summing over updates instead of gradients gives (N - 1) per
update. Domain: every worker restarts at once with the newest parameters, steady state, finite mean service time; law
and rates never enter. Second route: a path repeated forever, its lags counted. Source: derived (mean-staleness
identity with N - 1 outstanding).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._arrivals import cyclic_mean_lag, order


class _Setting(NamedTuple):
    workers: int
    rates: np.ndarray | None


def _read(point: Point) -> _Setting:
    workers, law, rates = _points.select(point, "workers law", "rates")
    workers = checks.integer("workers", workers, 2, "one worker is never stale; give at least two")
    checks.require(
        isinstance(law, str) and law != "", "law", law, "the text of a service law", "write it as name:numbers"
    )
    service = Law.parse(law)
    heavy = service.kind == "pareto" and service.parameters[1] <= 1.0
    checks.require(not heavy, "law", law, "a law of finite mean (index > 1)", "raise the index")
    return _Setting(workers, None if rates is None else _points.vector("rates", rates, 0.0, workers))


def _predict(point: Point) -> dict[str, float]:
    return {"mean": float(_read(point).workers - 1)}


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    # One more delivery by each worker closes the cycle on an order in which nobody is missing.
    path = np.concatenate([order(s.workers, 100 * s.workers, s.rates), np.arange(s.workers)])
    return {"mean": cyclic_mean_lag(path)}


def _own_counted(point: Point) -> dict[str, float]:
    return {"mean": float(_read(point).workers)}


def _half(point: Point) -> dict[str, float]:
    return {"mean": (_read(point).workers - 1) / 2.0}


claim = Claim(
    id="systems/update-on-arrival",
    statement="mean staleness of N workers that update on arrival is N-1, whatever the service law and the rates",
    kind="expectation",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: mean-staleness identity with N-1 outstanding gradients",
    formula_defects={
        "a worker's own update counted as staleness": _own_counted,
        "mean over the rotation, (N-1)/2": _half,
    },
)
