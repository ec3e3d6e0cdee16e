r"""The step at which stale descent decays fastest, and beyond which it oscillates.

x_{t+1} = x_t - a x_{t-tau} has the largest root real iff a <= tau^tau / (tau+1)^{tau+1}. There it is double, tau/(tau +
1), and no other a decays faster. Derivation: real roots solve z^tau (1 - z) = a, whose left side is largest at tau/(tau
+ 1). For long delays that a comes to 1/(e (tau + 1)), 0.234 of the largest stable step. Domain: tau >= 1, linear,
noiseless. Second route: the squared difference of the two largest companion roots, which changes sign there, and their
mean. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.theory._declared import Declared, Positive, Staleness
from asyncsim.theory._delay import critical
from asyncsim.theory._stated import stated


class _Setting(Declared):
    staleness = Staleness(1, 64, typical=(1, 24), example=4)
    curvature = Positive(typical=(0.1, 9.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")


def _quantities(s: _Setting, a: float, radius: float) -> dict[str, float]:
    return {"step": a / s.curvature, "radius": radius}


def _closed(s: _Setting) -> tuple[float, float]:
    tau = s.staleness
    return math.exp(tau * math.log(tau) - (tau + 1) * math.log(tau + 1)), tau / (tau + 1)


def _pair(a: float, tau: int) -> np.ndarray:
    """The two roots of largest modulus."""
    roots = np.roots([1.0, -1.0, *[0.0] * (tau - 1), a])
    largest: np.ndarray = roots[np.argsort(-np.abs(roots))][:2]
    return largest


def _cross_check(s: _Setting) -> dict[str, float]:
    def difference(a: float) -> float:
        first, second = _pair(a, s.staleness)
        return float(((first - second) ** 2).real)

    a = float(brentq(difference, 0.2 / (s.staleness + 1), 0.8 / (s.staleness + 1), xtol=1e-17, rtol=1e-14))
    return _quantities(s, a, float(_pair(a, s.staleness).mean().real))


claim = stated(
    id="staleness/critical-damping",
    statement="under staleness `tau` descent decays fastest, and ceases to be monotone, at "
    "`step * curvature = tau^tau / (tau + 1)^(tau + 1)`, where deviations shrink by `tau/(tau + 1)` an update",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=lambda s: _quantities(s, *_closed(s)),
    cross_check=_cross_check,
    reference="derived: double root of the characteristic equation",
    formula_defects={
        "limit of long delays 1/(e (tau + 1))": lambda s: _quantities(
            s, 1.0 / (math.e * (s.staleness + 1)), _closed(s)[1]
        ),
        "exponents exchanged": lambda s: _quantities(s, _closed(s)[0] * (s.staleness + 1) / s.staleness, _closed(s)[1]),
        "a quarter of the largest stable step": lambda s: _quantities(s, critical(s.staleness) / 4.0, _closed(s)[1]),
        "one update of memory fewer": lambda s: _quantities(s, _closed(s)[0], 1.0 - 1.0 / s.staleness),
    },
)
