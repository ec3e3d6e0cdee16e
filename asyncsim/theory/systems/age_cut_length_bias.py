r"""An age cut keeps short samples: those of length L with probability clip(m + 1 - L/tau, 0, 1).

Open loop, C places, P groups a batch, one sample a group, training takes no time; what is older than m versions when it
is done (planned version less version at start) is dropped. Derivation: nothing waits over a publish, so the age at the
cut is floor(L/tau + phi) with phi uniform (`systems/in-flight`): kappa(L) = P(age <= m) = clip(m + 1 - x, 0, 1), x =
L/tau. Kept fraction E kappa, mean length of the trained E[L kappa]/E[kappa]; if all waited q publishes, m - q would
stand for m. The period is realized, not set: C places deliver C/E[L] samples a second, of which E kappa are kept, so
tau = P E[L]/(C E[kappa(tau)]), whose right side falls in tau: one solution. Exact as P grows, when P kept deliveries
are a clock; the mean length is off by about 1/(3 P) of itself. Domain: lengths with a density, P >= 16, C >= P. Without
the cut, and under tickets without drops, lengths are unbiased. Second route: bisection of the condition with quadrature
over the density. Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from asyncsim import checks
from asyncsim.laws import Law
from asyncsim.records import Claim, Point
from asyncsim.theory import _lengths, _points

_GROUPS = 16
_Moments = Callable[["_Setting", float], tuple[float, float]]


class _Setting(NamedTuple):
    law: Law
    uncut: float
    age: int


def _read(point: Point) -> _Setting:
    text, places, groups, age = _points.select(point, "length places groups_per_batch max_age")
    law = _lengths.read_law("length", text)
    groups = checks.integer("groups_per_batch", groups, _GROUPS, "few deliveries make no clock")
    places = checks.integer("places", places, groups, "with fewer places hardly anything is cut")
    age = checks.integer("max_age", age, 0, "count versions")
    return _Setting(law, groups * law.mean() / places, age)


def _moments(s: _Setting, period: float) -> tuple[float, float]:
    """E kappa and E[L kappa] in closed form."""
    high = (s.age + 1) * period
    low = high - period
    below = [(_lengths.moment_below(s.law, p, low), _lengths.moment_below(s.law, p, high)) for p in (0, 1, 2)]
    (zero, zero_high), (one, one_high), (two, two_high) = below
    kept = zero + (s.age + 1) * (zero_high - zero) - (one_high - one) / period
    length = one + (s.age + 1) * (one_high - one) - (two_high - two) / period
    return kept, length


def _integrals(s: _Setting, period: float) -> tuple[float, float]:
    """The same two by quadrature."""

    def kappa(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(s.age + 1 - x / period, 0.0, 1.0))

    breaks = (s.age * period, (s.age + 1) * period)
    kept = _lengths.expectation(s.law, kappa, breaks, power=0.0)
    return kept, _lengths.expectation(s.law, lambda x: x * kappa(x), breaks, power=0.0)


def _quantities(s: _Setting, period: float, moments: _Moments) -> dict[str, float]:
    kept, length = moments(s, period)
    return {"kept": kept, "mean_length": length / kept, "period": period}


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)

    def surplus(log_period: float) -> float:
        period = float(np.exp(log_period))
        return period * _moments(s, period)[0] - s.uncut

    # tau E kappa(tau) grows from 0 to infinity, below tau itself.
    low = high = float(np.log(s.uncut))
    while surplus(high) < 0.0:
        high += 1.0
    period = float(np.exp(brentq(surplus, low - 1e-9, high, xtol=1e-15, rtol=1e-15)))
    return _quantities(s, period, _moments)


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    low = high = s.uncut
    while high * _integrals(s, high)[0] < s.uncut:
        low, high = high, 2.0 * high
    for _ in range(48):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * _integrals(s, middle)[0] < s.uncut else (low, middle)
    return _quantities(s, 0.5 * (low + high), _integrals)


def _uncut_clock(point: Point) -> dict[str, float]:
    s = _read(point)
    return _quantities(s, s.uncut, _moments)


def _no_bias(point: Point) -> dict[str, float]:
    return _predict(point) | {"mean_length": _read(point).law.mean()}


def _sharp(point: Point) -> dict[str, float]:
    """All kept up to (m + 1) tau and none beyond: the phase forgotten."""
    s = _read(point)

    def sharp(s: _Setting, period: float) -> tuple[float, float]:
        limit = (s.age + 1) * period
        return _lengths.moment_below(s.law, 0, limit), _lengths.moment_below(s.law, 1, limit)

    return _quantities(s, _predict(point)["period"], sharp)


claim = Claim(
    id="systems/age-cut-length-bias",
    statement="an age cut m keeps a sample of length L with probability clip(m+1-L/tau, 0, 1), tau realized",
    kind="expectation",
    status="asymptotic",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: uniform phase",
    formula_defects={
        "the period without the cut": _uncut_clock,
        "lengths taken to be unbiased": _no_bias,
        "the phase of the start forgotten": _sharp,
    },
)
