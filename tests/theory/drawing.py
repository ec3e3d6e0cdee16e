"""From declared parameters to points: strategies that draw what is typical."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from asyncsim import claims
from asyncsim.base import declared as d
from tests.theory.dependent import POINTS, Draw, typical


def law(p: d.Parameter[Any]) -> st.SearchStrategy[Any]:
    """Typical values of a parameter; of an optional one None too."""
    assert p.typical, f"{p.name}: say what is typical, or draw it in tests/theory/dependent.py"
    floats: Any = st.floats(*p.typical, allow_nan=False) if isinstance(p, (d.Real, d.Vector)) else None
    if isinstance(p, d.Vector):
        least, most = (p.length, p.length) if p.length else p.sizes
        found: Any = st.lists(floats, min_size=least, max_size=most).map(tuple)
    elif isinstance(p, d.Counts):
        found = st.lists(st.integers(*p.typical), min_size=p.least, max_size=p.least + 3, unique=True).map(tuple)
    elif isinstance(p, d.Integer):
        found = st.integers(*p.typical)
    else:
        found = st.sampled_from(p.typical) if floats is None else floats
    return st.none() | found if p.optional else found


def random_point(id: str, draw: Draw) -> dict[str, Any]:
    """A point of typical values."""
    return POINTS.get(id, typical)(claims.claim(id).point, draw)


def drawn(id: str) -> st.SearchStrategy[dict[str, Any]]:
    """Random points of a claim, most of them inside its domain."""
    return st.composite(lambda draw: random_point(id, lambda parameter: draw(law(parameter))))()


def stated(id: str) -> dict[str, Any]:
    """The point that a claim declares as its example."""
    return claims.claim(id).point.example()


def norms(values: Mapping[str, float]) -> dict[str, float]:
    """Of each quantity, the norm of the vector that it belongs to."""
    stems: dict[str, list[float]] = {}
    for name, value in values.items():
        stems.setdefault(name.partition("[")[0], []).append(value)
    return {name: math.hypot(*stems[name.partition("[")[0]]) for name in values}


def far(id: str, rng: np.random.Generator, most: float = 3.0) -> dict[str, Any]:
    """A point of a claim's domain up to so many times beyond what is typical; a parameter that is left out is None.

    One factor f in [1, most] of the point widens every range: [a, b] with 0 < a becomes [a/f, f b], another [f a, f b],
    cut at the domain. A number is drawn evenly from it, or, one time in two where a > 0, evenly in its logarithm.
    """
    claim = claims.claim(id)
    if not hasattr(claim.point, "parameters") or not claim.point.parameters:
        # Any settings are points: those of the trial, each number times a factor.
        own = claims.trial(id).points[rng.integers(len(claims.trial(id).points))]
        return {name: _scaled(value, float(most ** rng.uniform(-1.0, 1.0))) for name, value in own.items()}
    while True:
        factor = rng.uniform(1.0, most)
        try:
            point = random_point(id, lambda parameter, f=factor: _wide(parameter, rng, f))
        except (ArithmeticError, ValueError):
            continue
        if claim.domain(point) is None:
            return dict.fromkeys(claim.point.parameters) | point


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, int):
        return max(1, round(factor * value))
    return factor * value if isinstance(value, float) else value


def _number(rng: np.random.Generator, typical: tuple[float, float], factor: float, low: float, high: float) -> float:
    a, b = (x / factor if (x > 0) == (k == 0) else x * factor for k, x in enumerate(typical))
    a, b = max(a, low), min(b, high)
    if a > 0.0 and rng.random() < 0.5:
        return float(math.exp(rng.uniform(math.log(a), math.log(b))))
    return float(rng.uniform(a, b))


def _wide(p: d.Parameter[Any], rng: np.random.Generator, factor: float) -> Any:
    """A value of a parameter whose typical range is widened by a factor."""
    if p.optional and rng.random() < 0.5:
        return None
    if isinstance(p, d.Vector):
        least, most = (p.length, p.length) if p.length else p.sizes
        size = p.length or round(_number(rng, (least, most), factor, min(least, 1), math.inf))
        return tuple(_number(rng, p.typical, factor, p.low, math.inf) for _ in range(size))
    if isinstance(p, (d.Integer, d.Counts)):
        low, high = p.low, math.inf if p.high is None else p.high
        if isinstance(p, d.Integer):
            return int(np.clip(round(_number(rng, p.typical, factor, low, high)), low, high))
        numbers: dict[int, None] = {}
        count = rng.integers(p.least, p.least + 4)
        while len(numbers) < count:
            numbers[int(np.clip(round(_number(rng, p.typical, factor, low, high)), low, high))] = None
        return tuple(numbers)
    if isinstance(p, d.Real):
        return _number(rng, p.typical, factor, p.low, p.high)
    return p.typical[rng.integers(len(p.typical))]
