r"""Publishes every tau seconds, starts at any phase: in-flight staleness is D = floor((L + phi)/tau).

With x = L/tau and phi uniform on a period, independent of L: P(D = 0) = E (1 - x)^+, P(D = k) = E (1 - |x - k|)^+,
P(D >= k) = E clip(x - k + 1, 0, 1), E D = E[L]/tau. Derivation: given L, D is floor(x), or one more with probability
frac(x). Domain: a clock that generation cannot stop (a trainer that never waits, `_clocked`); starts not tied to
publishes, as tickets would tie them; lengths with a density. It holds for all completions: those that survive a full
buffer, or an age cut, have another phase. First route: moments of L between multiples of tau in closed form. Second
route: quadrature over phase of the survival, P(D >= k) = int_0^1 P(L > (k - phi) tau) dphi, and of the density for the
mean. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _lengths, _points
from asyncsim.theory._clocked import Clocked, read_clocked

_MOST = 64


def _read(point: Point) -> tuple[Clocked, int]:
    clock, (cells,) = read_clocked(point, "cells")
    return clock, checks.integer("cells", cells, 1, "ask for at least one cell", _MOST)


def _quantities(mean: float, tails: list[float]) -> dict[str, float]:
    """Mean, cells and what is left, from P(D >= k) for k = 0 .. cells."""
    return {"mean": mean} | _points.indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])}


def _tail(clock: Clocked, k: int) -> float:
    """E clip(x - k + 1, 0, 1) by the moments of L below (k - 1) tau and k tau."""
    low, high = (k - 1) * clock.period, k * clock.period
    inside, weight = (
        _lengths.moment_below(clock.length, power, high) - _lengths.moment_below(clock.length, power, low)
        for power in (1, 0)
    )
    return inside / clock.period - (k - 1) * weight + float(clock.length.survival(high))


def _predict(point: Point) -> dict[str, float]:
    clock, cells = _read(point)
    mean = _lengths.moment_below(clock.length, 1, math.inf) / clock.period
    return _quantities(mean, [1.0] + [_tail(clock, k) for k in range(1, cells + 1)])


def _cross_check(point: Point) -> dict[str, float]:
    clock, cells = _read(point)
    # Where the survival has its kink, and near 0 on the scale of the law, the phase is cut.
    cuts = [c / clock.period for c in (clock.length.parameters[0], 1e-2 * clock.length.mean())]

    def by_phase(k: int) -> float:
        points = [k - c for c in cuts if 0.0 < k - c < 1.0]

        def beyond(phase: float) -> float:
            return float(clock.length.survival((k - phase) * clock.period))

        return float(quad(beyond, 0.0, 1.0, points=points or None, epsabs=1e-14, epsrel=1e-12, limit=400)[0])

    mean = _lengths.expectation(clock.length, lambda x: x / clock.period)
    return _quantities(mean, [1.0] + [by_phase(k) for k in range(1, cells + 1)])


def _phase_zero(point: Point) -> dict[str, float]:
    """Starts taken to coincide with publishes: D = floor(x)."""
    clock, cells = _read(point)
    tails = [float(clock.length.survival(k * clock.period)) for k in range(cells + 1)]
    return _quantities(_predict(point)["mean"] - 0.5, tails)


def _rounded_up(point: Point) -> dict[str, float]:
    """Every sample taken to end in a version later than it started: D = floor(x) + 1."""
    clock, cells = _read(point)
    tails = [1.0] + [float(clock.length.survival((k - 1) * clock.period)) for k in range(1, cells + 1)]
    return _quantities(_predict(point)["mean"] + 0.5, tails)


def _length_biased(point: Point) -> dict[str, float]:
    """All samples replaced by those in generation at a publish."""
    clock, cells = _read(point)
    law, mean = clock.length, clock.length.mean()
    weighted = [1.0]
    for k in range(1, cells + 1):
        low, high = (k - 1) * clock.period, k * clock.period
        first, second = (
            _lengths.moment_below(law, p, high) - _lengths.moment_below(law, p, low) for p in (1, 2)
        )
        weighted.append((second / clock.period - (k - 1) * first - _lengths.moment_below(law, 1, high)) / mean + 1.0)
    return _quantities(_predict(point)["mean"], weighted)


claim = Claim(
    id="systems/in-flight",
    statement="with publishes every tau seconds and any start phase, in-flight staleness is floor((L + phi)/tau)",
    kind="distribution",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: uniform phase",
    formula_defects={
        "starts taken to coincide with publishes": _phase_zero,
        "rounded up": _rounded_up,
        "the law of those in generation at a publish": _length_biased,
    },
    relative_to="norm",
)
