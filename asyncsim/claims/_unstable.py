"""Delayed descent beyond its boundary: growth per update of x_{t+1} = x_t - a x_{t-tau}, by roots and by Lambert W."""

import cmath

import numpy as np
from scipy.special import lambertw

from asyncsim.base import checks
from asyncsim.claims._delay import critical


def growth(a: float, tau: int) -> float:
    """Logarithm of the largest root of z^{tau+1} - z^tau + a, in nats an update.

    >>> round(growth(3.0, 0), 12) == round(float(np.log(2.0)), 12)
    True
    """
    polynomial = np.zeros(tau + 2)
    polynomial[:2], polynomial[-1] = (1.0, -1.0), polynomial[-1] + a
    if tau == 0:
        polynomial[1] = a - 1.0
    return float(np.log(np.abs(np.roots(polynomial)).max()))


def growth_by_newton(a: float, tau: int) -> float:
    """The same from z = e^s: Newton's method on tau s + log(1 - e^s) = log a, started at Lambert's rate."""
    s = complex(lambertw(-a * (tau + 0.5))) / (tau + 0.5)
    for _ in range(60):
        z = cmath.exp(s)
        value = z**tau * (1.0 - z) - a
        s -= value / (z**tau * (tau * (1.0 - z) - z))
    return s.real


def growth_by_lambert(a: float, delay: float) -> float:
    """Re W_0(-a T)/T with T = tau + 1/2 updates: the rate of a long delay.

    >>> abs(growth_by_lambert(0.2, 16.5) / growth(0.2, 16) - 1.0) < 0.01
    True
    """
    return float(lambertw(-a * delay).real) / delay


def unstable(field: str, value: float, a: float, tau: int) -> None:
    """Refuse a mode that does not grow."""
    bound = f"such that step * curvature = {a:.4g} is above {1.001 * critical(tau):.6g}"
    checks.require(a > 1.001 * critical(tau), field, value, bound, "below the boundary nothing grows")
