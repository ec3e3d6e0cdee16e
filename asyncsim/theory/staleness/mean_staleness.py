r"""Workers that update on arrival conserve total delay: workers - 1 per update, path by path.

sum of delays of applied gradients + sum of ages of gradients in flight = (N - 1) T after T updates. Derivation:
between two reads of one worker pass its delay plus its own update, so for each worker delays + own updates + present
age = T; sum over the N workers, whose own updates add up to T. Domain: one gradient in flight per worker, all read
before the first update; any time law. Second route: the count itself on a path of log-normal service times. Source:
derived.
"""

from __future__ import annotations

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._arrivals import lags_and_ages, order


def _read(point: Point) -> tuple[int, int]:
    workers, law, updates = _points.select(point, "workers law updates")
    checks.require(
        isinstance(law, str) and law != "", "law", law, "the text of a service law", "write it as name:numbers"
    )
    return (
        checks.integer("workers", workers, 2, "one worker is never stale; give at least two"),
        checks.integer("updates", updates, 1, "give at least one update"),
    )


def _predict(point: Point) -> dict[str, float]:
    return {"total_per_update": float(_read(point)[0] - 1)}


def _cross_check(point: Point) -> dict[str, float]:
    workers, updates = _read(point)
    lags, ages = lags_and_ages(workers, order(workers, updates))
    return {"total_per_update": int(lags.sum() + ages.sum()) / updates}


def _own_counted(point: Point) -> dict[str, float]:
    return {"total_per_update": float(_read(point)[0])}


def _half(point: Point) -> dict[str, float]:
    return {"total_per_update": (_read(point)[0] - 1) / 2.0}


claim = Claim(
    id="staleness/mean-staleness",
    statement="with N workers updating on arrival, delays applied plus ages in flight sum to N-1 per update",
    kind="identity",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: exchange of the sums over workers and updates",
    formula_defects={"a worker's own update counted as delay": _own_counted, "mean over the rotation, (N-1)/2": _half},
)
