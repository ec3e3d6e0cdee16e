r"""The bias of a stale gradient grows like the step, and like the staleness only where the drift is ballistic.

Behavior frozen at x = start for S updates of x_{t+1} = x_t - step (curvature start + noise xi_t): the bias after them
is b = curvature (start - x_S), E|b|^2 = curvature^2 step^2 (S^2 (curvature start)^2 + S noise^2). The quantity is the
least-squares slope of log sqrt(E|b|^2) over the log of what varies: 1 in the step; between 1/2 (noise) and 1 (drift)
in the staleness. Domain: quadratic loss, white noise, at least two distinct values. Second route: mean and variance
carried update by update. Source: arXiv 2607.01083 for the O(step * staleness) bound; the exact law is derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points


class _Setting(NamedTuple):
    curvature: float
    start: float
    noise: float
    steps: np.ndarray
    stalenesses: list[int]
    varied: np.ndarray


def _read(point: Point) -> _Setting:
    over_steps = isinstance(point, Mapping) and "steps" in point
    curvature, start, noise, steps, stale = _points.select(
        point, f"curvature start noise {'steps staleness' if over_steps else 'step stalenesses'}"
    )
    curvature = _points.positive("curvature", curvature)
    start = checks.real("start", start, "give the distance from the optimum")
    noise = checks.real("noise", noise, "give the noise of one gradient", 0.0)
    checks.require(start != 0.0 or noise > 0.0, "noise", noise, "above 0 at start = 0", "without either nothing moves")
    steps = _points.vector("steps", steps if over_steps else (steps,), 0.0)
    ages = [stale] if over_steps else list(stale)
    ages = [checks.integer("staleness", age, 1, "count the updates for which behavior is frozen") for age in ages]
    varied = steps if over_steps else np.array(ages, dtype=np.float64)
    name = "steps" if over_steps else "stalenesses"
    checks.require(
        np.unique(varied).size >= 2, name, varied.tolist(), "two distinct values or more", "a slope needs two"
    )
    return _Setting(curvature, start, noise, steps, ages, varied)


def _slope(varied: np.ndarray, rms: np.ndarray) -> dict[str, float]:
    x, y = np.log(varied), np.log(rms)
    x = x - x.mean()
    return {"slope": float(x @ y / (x @ x))}


def _square(s: _Setting, drift_power: int, noise_power: int) -> np.ndarray:
    """E|b|^2 over the varied values, with the staleness to these powers in the drift and in the noise."""
    age = np.array(s.stalenesses, dtype=np.float64)
    moved = age**drift_power * (s.curvature * s.start) ** 2 + age**noise_power * s.noise**2
    square: np.ndarray = (s.curvature * s.steps) ** 2 * moved
    return square


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _slope(s.varied, np.sqrt(_square(s, 2, 1)))


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    rms = []
    for step in s.steps:
        reached = {0: 0.0}
        mean, spread = s.start, 0.0
        for age in range(1, max(s.stalenesses) + 1):
            mean, spread = mean - step * s.curvature * s.start, spread + (step * s.noise) ** 2
            reached[age] = s.curvature * float(np.hypot(s.start - mean, np.sqrt(spread)))
        rms += [reached[age] for age in s.stalenesses]
    return {"slope": float(np.polyfit(np.log(s.varied), np.log(rms), 1)[0])}


def _mean_square(point: Point) -> dict[str, float]:
    s = _read(point)
    return _slope(s.varied, _square(s, 2, 1))


def _diffusive(point: Point) -> dict[str, float]:
    s = _read(point)
    return _slope(s.varied, np.sqrt(_square(s, 1, 1) if len(s.stalenesses) > 1 else s.steps))


claim = Claim(
    id="convergence/bias-slope",
    statement="rms bias of a stale gradient has slope 1 in the step, and of sqrt(S^2 drift^2 + S noise^2) in staleness",
    kind="exponent",
    status="conditional",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 2607.01083 (bound); exact law derived",
    formula_defects={"mean square in place of root mean square": _mean_square, "square-root law": _diffusive},
)
