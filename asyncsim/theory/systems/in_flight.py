r"""Publishes every tau seconds, starts at any phase: in-flight staleness is D = floor((L + phi)/tau).

With x = L/tau and phi uniform on a period, independent of L: P(D = 0) = E (1 - x)^+, P(D = k) = E (1 - |x - k|)^+, P(D
>= k) = E clip(x - k + 1, 0, 1), E D = E[L]/tau. Derivation: given L, D is floor(x), or one more with probability
frac(x). Domain: a clock that generation cannot stop (a trainer that never waits, `_clocked`). Starts are not tied to
publishes, as tickets would tie them; lengths have a density. It holds for all completions: those that survive a full
buffer, or an age cut, have another phase. First route: moments of L between multiples of tau in closed form. Second
route: quadrature over phase of the survival, P(D >= k) = int_0^1 P(L > (k - phi) tau) dphi, and of the density for the
mean. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad

from asyncsim.theory import _engines, _lengths
from asyncsim.theory._clocked import Clocked
from asyncsim.theory._stated import indexed, stated

_MOST = 64


class _Setting(Clocked):
    cells = _engines.cells(_MOST, typical=(1, 8), example=6)


def _quantities(mean: float, tails: list[float]) -> dict[str, float]:
    """Mean, cells and what is left, from P(D >= k) for k = 0 .. cells."""
    return {"mean": mean} | indexed("p", -np.diff(tails)) | {"tail": float(tails[-1])}


def _tail(s: _Setting, k: int) -> float:
    """E clip(x - k + 1, 0, 1) by the moments of L below (k - 1) tau and k tau."""
    low, high = (k - 1) * s.period, k * s.period
    inside, weight = (
        _lengths.moment_below(s.length, power, high) - _lengths.moment_below(s.length, power, low) for power in (1, 0)
    )
    return inside / s.period - (k - 1) * weight + float(s.length.survival(high))


def _predict(s: _Setting) -> dict[str, float]:
    mean = _lengths.moment_below(s.length, 1, math.inf) / s.period
    return _quantities(mean, [1.0] + [_tail(s, k) for k in range(1, s.cells + 1)])


def _cross_check(s: _Setting) -> dict[str, float]:
    # Where the survival has its kink, and near 0 on the scale of the law, the phase is cut.
    cuts = [c / s.period for c in (s.length.parameters[0], 1e-2 * s.length.mean())]

    def by_phase(k: int) -> float:
        points = [k - c for c in cuts if 0.0 < k - c < 1.0]

        def survival(phase: float) -> float:
            return float(s.length.survival((k - phase) * s.period))

        return float(quad(survival, 0.0, 1.0, points=points or None, epsabs=1e-14, epsrel=1e-12, limit=400)[0])

    mean = _lengths.expectation(s.length, lambda x: x / s.period)
    return _quantities(mean, [1.0] + [by_phase(k) for k in range(1, s.cells + 1)])


def _phase_zero(s: _Setting) -> dict[str, float]:
    """Starts taken to coincide with publishes: D = floor(x)."""
    tails = [float(s.length.survival(k * s.period)) for k in range(s.cells + 1)]
    return _quantities(_predict(s)["mean"] - 0.5, tails)


def _rounded_up(s: _Setting) -> dict[str, float]:
    """Every sample taken to end in a version later than it started: D = floor(x) + 1."""
    tails = [1.0] + [float(s.length.survival((k - 1) * s.period)) for k in range(1, s.cells + 1)]
    return _quantities(_predict(s)["mean"] + 0.5, tails)


def _length_biased(s: _Setting) -> dict[str, float]:
    """All samples replaced by those in generation at a publish."""
    law, mean = s.length, s.length.mean()
    tails = [1.0]
    for k in range(1, s.cells + 1):
        low, high = (k - 1) * s.period, k * s.period
        first, second = (_lengths.moment_below(law, p, high) - _lengths.moment_below(law, p, low) for p in (1, 2))
        tails.append((second / s.period - (k - 1) * first - _lengths.moment_below(law, 1, high)) / mean + 1.0)
    return _quantities(_predict(s)["mean"], tails)


claim = stated(
    id="systems/in-flight",
    statement="with publishes every `tau` seconds and any start phase, in-flight staleness is `floor((L + phi)/tau)`",
    kind="distribution",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: uniform phase",
    formula_defects={
        "starts taken to coincide with publishes": _phase_zero,
        "rounded up": _rounded_up,
        "the distribution of those in generation at a publish": _length_biased,
    },
    relative_to="norm",
)
