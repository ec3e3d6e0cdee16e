r"""Gradient descent with constant delay: mean squared gradient is bounded with explicit constants.

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + step L noise^2 + (step L)^2 tau noise^2 if step L + (step L tau)^2
<= 1. Derivation: smoothness, with 2<u,v> = |u|^2 + |v|^2 - |u-v|^2 for u = grad f(x_t), v = grad f(x_{t-tau}); the
window x_t - x_{t-tau} splits into gradients fixed before it and fresh noise, E|x_t - x_{t-tau}|^2 <= step^2 (tau sum
|v|^2 + tau noise^2); absorb the |v|^2. Evaluated for f = L x^2/2 from x = start, Delta = L start^2/2. Domain: the
step condition above, noise of variance at most noise^2. Second route: the budget of the derivation summed update by
update; and the exact second moments of the quadratic, which would be returned instead if they exceeded it. Attained
at staleness 0 with step 1/L, and at staleness 1 with the largest step. Beyond, |sum of tau v|^2 < tau sum |v|^2: a
search over quadratics, steps, starts and lengths reached 0.944 of the bound at staleness 2, 0.86 at 16.
Source: derived; compare arXiv 1909.05350.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points
from asyncsim.theory._recursion import unless_exceeded


class _Setting(NamedTuple):
    curvature: float
    staleness: int
    step: float
    noise: float
    start: float
    updates: int


def _read(point: Point) -> _Setting:
    curvature, tau, step, noise, start, updates = _points.select(point, "curvature staleness step noise start updates")
    s = _Setting(
        _points.positive("curvature", curvature),
        _points.staleness(tau),
        _points.positive("step", step),
        checks.real("noise", noise, "give the noise of one gradient", 0.0),
        checks.real("start", start, "give the distance from the optimum"),
        checks.integer("updates", updates, 1, "make at least one update"),
    )
    checks.require(
        s.noise > 0.0 or s.start != 0.0, "noise", s.noise, "above 0 at start = 0", "without either nothing moves"
    )
    a = s.step * s.curvature
    # At the largest allowed step, 1/L, the product may round to just above 1.
    checks.require(
        a + (a * s.staleness) ** 2 <= 1.0 + 1e-12,
        "step",
        step,
        "such that step L + (step L staleness)^2 <= 1",
        f"a step of {1.0 / (s.curvature * (1 + s.staleness)):.6g} is allowed",
    )
    return s


def _bound(s: _Setting, descent: float = 2.0, noise: float = 1.0, delay: float = 1.0) -> dict[str, float]:
    a, gap = s.step * s.curvature, s.curvature * s.start**2 / 2.0
    floor = (noise * a + delay * a**2 * s.staleness) * s.noise**2
    return {"bound": descent * gap / (s.step * s.updates) + floor}


def _predict(point: Point) -> dict[str, float]:
    return _bound(_read(point))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    kick = (s.step * s.noise) ** 2
    spent = []
    for _ in range(s.updates):
        spent.append(s.curvature / 2.0 * kick)
        spent += [s.step / 2.0 * s.curvature**2 * kick] * s.staleness
    budget = (s.curvature / 2.0 * s.start**2 + math.fsum(spent)) / (s.step / 2.0 * s.updates)
    # Attained at staleness 0 and step 1/L up to the last term.
    return {"bound": unless_exceeded(budget, s.curvature, s.start, s.noise, s.step, s.staleness, s.updates)}


def _no_delay_noise(point: Point) -> dict[str, float]:
    return _bound(_read(point), delay=0.0)


def _half_noise(point: Point) -> dict[str, float]:
    return _bound(_read(point), noise=0.5)


def _half_descent(point: Point) -> dict[str, float]:
    return _bound(_read(point), descent=1.0)


def _descent(point: Point, factor: float) -> dict[str, float]:
    return _bound(_read(point), descent=2.0 * factor)


def _noise(point: Point, factor: float) -> dict[str, float]:
    return _bound(_read(point), noise=factor)


def _delay_of_one(point: Point, factor: float) -> dict[str, float]:
    s = _read(point)
    return _bound(s, delay=factor if s.staleness == 1 else 1.0)


def _delay_of_several(point: Point, factor: float) -> dict[str, float]:
    s = _read(point)
    return _bound(s, delay=factor if s.staleness > 1 else 1.0)


claim = Claim(
    id="convergence/constant-delay",
    statement="under staleness tau the mean squared gradient is <= 2 Delta/(step T) + step L s^2 + (step L)^2 tau s^2",
    kind="bound",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; compare arXiv 1909.05350",
    formula_defects={
        "noise carried by the delay omitted": _no_delay_noise,
        "noise term halved": _half_noise,
        "initial gap counted once": _half_descent,
    },
    terms={
        "initial gap": _descent,
        "fresh noise": _noise,
        "noise of one update of delay": _delay_of_one,
        "noise of several updates of delay": _delay_of_several,
    },
)
