r"""Gradient descent with delays fixed in advance: the noise sees the mean delay, the step condition the largest.

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + step L noise^2 + 2 (step L)^2 mean noise^2 if step L + 2 (step L)^2
maximum in_flight <= 1, with `maximum` and `mean` of the delays and `in_flight` the most gradients that have been read
but not yet applied across one update. Derivation: as for a constant delay, with |u + v|^2 <= 2|u|^2 + 2|v|^2 in place
of the exact split, since noise of the window is no longer fresh for every gradient in it; each |v|^2 of the past is
counted by at most in_flight windows. Evaluated for f = L x^2/2 from x = start. Domain: the step condition, delays that
do not depend on the noise. Second route: the budget of the derivation update by update, for delays of that mean; and
the exact second moments of the quadratic under the constant delay nearest to it, which would be returned instead if
they exceeded it. The term of the delays is not attained: among all periodic delays of period up to 5 and at most 6 on
quadratics the worst, a constant delay of 1, reaches 0.593 of the bound, and would allow a term 81 percent lower. So
nothing here tells the mean delay from the largest in that term. Source: derived; form of arXiv 2206.08307.
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
    maximum: int
    mean: float
    in_flight: int
    step: float
    noise: float
    start: float
    updates: int


def _read(point: Point) -> _Setting:
    curvature, maximum, mean, in_flight, step, noise, start, updates = _points.select(
        point, "curvature maximum mean in_flight step noise start updates"
    )
    maximum = checks.integer("maximum", maximum, 0, "give the largest delay in updates")
    s = _Setting(
        _points.positive("curvature", curvature),
        maximum,
        checks.real("mean", mean, "give the mean delay in updates", 0.0, float(maximum)),
        checks.integer("in_flight", in_flight, 0, "count gradients that were read and not yet applied"),
        _points.positive("step", step),
        checks.real("noise", noise, "give the noise of one gradient", 0.0),
        checks.real("start", start, "give the distance from the optimum"),
        checks.integer("updates", updates, 1, "make at least one update"),
    )
    # A gradient as late as the largest delay is itself in flight.
    checks.require((maximum == 0) == (s.in_flight == 0), "in_flight", in_flight, "0 only without delay", "count again")
    checks.require(
        s.noise > 0.0 or s.start != 0.0, "noise", s.noise, "above 0 at start = 0", "without either nothing moves"
    )
    a = s.step * s.curvature
    product = 2.0 * maximum * s.in_flight
    allowed = 2.0 / (s.curvature * (1.0 + math.sqrt(1.0 + 4.0 * product)))
    checks.require(
        a + product * a**2 <= 1.0 + 1e-12,
        "step",
        step,
        "such that step L + 2 (step L)^2 maximum in_flight <= 1",
        f"a step of {allowed:.6g} is allowed",
    )
    return s


def _bound(s: _Setting, delay: float = 2.0, noise: float = 1.0, descent: float = 2.0) -> dict[str, float]:
    a, gap = s.step * s.curvature, s.curvature * s.start**2 / 2.0
    return {"bound": descent * gap / (s.step * s.updates) + (noise * a + delay * a**2 * s.mean) * s.noise**2}


def _predict(point: Point) -> dict[str, float]:
    return _bound(_read(point))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    kick = (s.step * s.noise) ** 2
    spent = []
    for update in range(s.updates):
        spent.append(s.curvature / 2.0 * kick)
        # Whole delays whose running mean stays at the mean; the last one brings what is left over.
        whole = math.floor((update + 1) * s.mean) - math.floor(update * s.mean)
        spent += [s.step * s.curvature**2 * kick] * whole
    spent.append(s.step * s.curvature**2 * kick * (s.updates * s.mean - math.floor(s.updates * s.mean)))
    budget = (s.curvature / 2.0 * s.start**2 + math.fsum(spent)) / (s.step / 2.0 * s.updates)
    return {"bound": unless_exceeded(budget, s.curvature, s.start, s.noise, s.step, math.floor(s.mean), s.updates)}


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


def _delay(point: Point, factor: float) -> dict[str, float]:
    return _bound(_read(point), delay=2.0 * factor)


claim = Claim(
    id="convergence/arbitrary-delay",
    statement="delays fixed in advance: bound 2 Delta/(step T) + step L s^2 + 2 (step L)^2 s^2 mean delay",
    kind="bound",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; form of arXiv 2206.08307",
    formula_defects={
        "noise carried by the delay omitted": _no_delay_noise,
        "noise term halved": _half_noise,
        "initial gap counted once": _half_descent,
    },
    terms={"initial gap": _descent, "fresh noise": _noise, "noise of the delays": _delay},
)
