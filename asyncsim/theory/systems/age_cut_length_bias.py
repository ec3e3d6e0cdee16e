r"""A staleness cut keeps short samples: those of length L with probability clip(m + 1 - L/tau, 0, 1).

Open loop, C places, P groups a batch, one sample a group, training takes no time. A sample older than m versions when
it is done (planned version less version at start) is dropped. Derivation: nothing waits over a publish, so the age at
the cut is floor(L/tau + phi) with phi uniform (`systems/in-flight`). Hence kappa(L) = P(age <= m) = clip(m + 1 - x, 0,
1), x = L/tau. Kept fraction E kappa, mean length of the trained E[L kappa]/E[kappa]; if all waited q publishes, m - q
would stand for m. The period is realized, not set: C places deliver C/E[L] samples a second, of which E kappa are kept.
So tau = P E[L]/(C E[kappa(tau)]), whose right side falls in tau: one solution. Exact as P grows, when P kept deliveries
are a clock; the mean length is off by about 1/(3 P) of itself. Domain: lengths with a density, P >= 16, C >= P. Without
the cut, and under tickets without drops, lengths are unbiased. Second route: bisection of the condition with quadrature
over the density. Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from asyncsim.base import checks
from asyncsim.theory import _engines, _lengths
from asyncsim.theory._declared import Draw, Integer
from asyncsim.theory._stated import stated

_GROUPS = 16
_Moments = Callable[["_Setting", float], tuple[float, float]]


class _Setting(_engines.Engines):
    length = _engines.smooth_length(example="lognormal:1.0:0.8")
    places = _engines.places(example=256)
    groups_per_batch = _engines.groups(_GROUPS, typical=(16, 64), example=64, remedy="few deliveries make no clock")
    max_age = Integer(
        0,
        typical=(0, 8),
        example=1,
        unit="versions",
        doc="largest staleness of a finished sample, in versions from its start",
        remedy="count versions",
    )

    def joint(self) -> None:
        """With fewer places than groups of a batch no sample is a version old."""
        checks.integer(
            "places", self.places, self.groups_per_batch, "with fewer generator slots hardly anything is cut"
        )

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Places for one to eight batches."""
        point = super().drawn(draw)
        return point | {"places": point["groups_per_batch"] * draw(Integer(1, typical=(1, 8)))}

    @property
    def uncut(self) -> float:
        """Seconds between two publishes where nothing is cut."""
        return self.groups_per_batch * self.length.mean() / self.places


def _moments(s: _Setting, period: float) -> tuple[float, float]:
    """E kappa and E[L kappa] in closed form."""
    high = (s.max_age + 1) * period
    low = high - period
    below = [(_lengths.moment_below(s.length, p, low), _lengths.moment_below(s.length, p, high)) for p in (0, 1, 2)]
    (zero, zero_high), (one, one_high), (two, two_high) = below
    share = zero + (s.max_age + 1) * (zero_high - zero) - (one_high - one) / period
    length = one + (s.max_age + 1) * (one_high - one) - (two_high - two) / period
    return share, length


def _integrals(s: _Setting, period: float) -> tuple[float, float]:
    """The same two by quadrature."""

    def kappa(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(s.max_age + 1 - x / period, 0.0, 1.0))

    breaks = (s.max_age * period, (s.max_age + 1) * period)
    share = _lengths.expectation(s.length, kappa, breaks, power=0.0)
    return share, _lengths.expectation(s.length, lambda x: x * kappa(x), breaks, power=0.0)


def _quantities(s: _Setting, period: float, moments: _Moments) -> dict[str, float]:
    share, length = moments(s, period)
    return {"kept": share, "mean_length": length / share, "period": period}


def _predict(s: _Setting) -> dict[str, float]:

    def surplus(log_period: float) -> float:
        period = float(np.exp(log_period))
        return period * _moments(s, period)[0] - s.uncut

    # tau E kappa(tau) grows from 0 to infinity, below tau itself.
    low = high = float(np.log(s.uncut))
    while surplus(high) < 0.0:
        high += 1.0
    period = float(np.exp(brentq(surplus, low - 1e-9, high, xtol=1e-15, rtol=1e-15)))
    return _quantities(s, period, _moments)


def _cross_check(s: _Setting) -> dict[str, float]:
    low = high = s.uncut
    while high * _integrals(s, high)[0] < s.uncut:
        low, high = high, 2.0 * high
    for _ in range(48):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle * _integrals(s, middle)[0] < s.uncut else (low, middle)
    return _quantities(s, 0.5 * (low + high), _integrals)


def _sharp(s: _Setting) -> dict[str, float]:
    """All kept up to (m + 1) tau and none beyond: the phase forgotten."""

    def sharp(s: _Setting, period: float) -> tuple[float, float]:
        limit = (s.max_age + 1) * period
        return _lengths.moment_below(s.length, 0, limit), _lengths.moment_below(s.length, 1, limit)

    return _quantities(s, _predict(s)["period"], sharp)


claim = stated(
    id="systems/age-cut-length-bias",
    statement="a staleness cut `m` keeps a sample of length `L` with probability "
    "`clip(m+1-L/tau, 0, 1)`, `tau` realized",
    kind="expectation",
    status="asymptotic",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: uniform phase",
    formula_defects={
        "the period without the cut": lambda s: _quantities(s, s.uncut, _moments),
        "lengths taken to be unbiased": lambda s: _predict(s) | {"mean_length": s.length.mean()},
        "the phase of the start forgotten": _sharp,
    },
)
