r"""Workers that update on arrival conserve total staleness: workers - 1 per update, path by path.

sum of delays of applied gradients + sum of ages of gradients in flight = (N - 1) T after T updates. Derivation: between
two reads of one worker pass its delay plus its own update. So for each worker delays + own updates + present age = T.
Sum over the N workers, whose own updates add up to T. Domain: one gradient in flight per worker, all read before the
first update; any time law. Second route: the count itself on a path of log-normal service times. Source: derived.
"""

from __future__ import annotations

from typing import Any

from asyncsim.base import checks
from asyncsim.theory._arrivals import lags_and_ages, order
from asyncsim.theory._declared import Declared, Integer, Parsed
from asyncsim.theory._stated import stated


def _text(name: str, value: Any) -> str:
    is_text = isinstance(value, str) and value != ""
    checks.require(is_text, name, value, "the text of a distribution of service times", "write it as name:numbers")
    return str(value)


class _Setting(Declared):
    workers = Integer(
        2, typical=(2, 12), example=8, doc="number of workers", remedy="one worker is never stale; give at least two"
    )
    law = Parsed(
        _text,
        "any distribution of times",
        typical=("exponential:1",),
        example="lognormal:1.0:0.8",
        doc="distribution of service times",
    )
    updates = Integer(1, typical=(1, 200), example=500, unit="updates", doc="length of a run")


def _predict(s: _Setting) -> dict[str, float]:
    return {"total_per_update": float(s.workers - 1)}


def _cross_check(s: _Setting) -> dict[str, float]:
    lags, ages = lags_and_ages(s.workers, order(s.workers, s.updates))
    return {"total_per_update": int(lags.sum() + ages.sum()) / s.updates}


claim = stated(
    id="staleness/mean-staleness",
    statement="with `N` workers updating on arrival, staleness of applied and pending gradients sums to `N-1` "
    "per update",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: exchange of the sums over workers and updates",
    formula_defects={
        "a worker's own update counted as staleness": lambda s: {"total_per_update": float(s.workers)},
        "mean over the rotation, (N-1)/2": lambda s: {"total_per_update": (s.workers - 1) / 2.0},
    },
)
