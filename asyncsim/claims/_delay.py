r"""Closed forms of the linear model with constant delay, and its growth beyond the boundary.

x_{t+1} = x_t - step g_t, g_t = curvature x_{t-tau} + xi_t, with white noise xi of standard deviation sigma. All depend
on a = step * curvature and the delay tau alone. With omega = 2 arcsin(a/2) and Theta = (tau + 1/2) omega the marginal
root sits at Theta = pi/2. Source: Levin and May, Theor. Popul. Biol. 9 (1976); correlations derived from 2 E<x,g> =
step E g^2 and the real-root form of the autocovariance.
"""

import cmath
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw

from asyncsim.base import checks


def critical(tau: int) -> float:
    """Largest stable a = learning rate * curvature at constant delay tau: 2 sin(pi / (2 (2 tau + 1)))."""
    return 2.0 * math.sin(math.pi / (2.0 * (2 * tau + 1)))


def mixed_critical(tau: int, share: float) -> float:
    """Largest stable a where a fraction m of the gradient is stale: x_{t+1} = x_t - a (1 - m) x_t - a m x_{t-tau}.

    A root of z^{tau+1} - (1 - a (1 - m)) z^tau + a m leaves the disc at -1, or at e^{i phi} with
    m cos((tau + 1/2) phi) = -(1 - m) cos(phi / 2), where a = sin phi / (m sin tau phi); the smallest of these a. The
    scalar equation: Kuruklis 1994 (J. Math. Anal. Appl. 188).

    >>> [round(mixed_critical(4, m) / critical(4), 9) for m in (0.0, 1.0)]
    [5.758770483, 1.0]
    >>> round(mixed_critical(1, 0.25), 9)
    4.0
    """
    if tau == 0 or share == 0.0:
        return 2.0
    found = []
    if tau % 2 == 0 or share < 0.5:
        found.append(2.0 if tau % 2 == 0 else 2.0 / (1.0 - 2.0 * share))

    def gap(phi: float) -> float:
        return share * math.cos((tau + 0.5) * phi) + (1.0 - share) * math.cos(phi / 2.0)

    # Both terms are 0 at phi = pi, which is the root -1.
    grid = np.linspace(0.0, math.pi, 32 * (tau + 1))[:-1]
    values = share * np.cos((tau + 0.5) * grid) + (1.0 - share) * np.cos(grid / 2.0)
    for k in np.flatnonzero(values[:-1] * values[1:] <= 0.0):
        phi = float(brentq(gap, grid[k], grid[k + 1], xtol=1e-16, rtol=1e-15))
        a = math.sin(phi) / (share * math.sin(tau * phi))
        found += [a] if a > 0.0 else []
    return min(found)


def angles(a: float, tau: int) -> tuple[float, float]:
    """Angles (omega, Theta) of the mode with a = step * curvature; Theta = pi/2 at the stability boundary."""
    omega = 2.0 * math.asin(a / 2.0)
    return omega, (tau + 0.5) * omega


def excess(a: float, tau: int) -> float:
    """Q = E (curvature x)^2 / sigma^2 = tan(omega/2) tan(pi/4 + Theta/2), so that E g^2 / sigma^2 = 1 + Q."""
    omega, theta = angles(a, tau)
    return math.tan(omega / 2.0) * math.tan(math.pi / 4.0 + theta / 2.0)


def covariance_share(a: float, tau: int, lag: int) -> float:
    """Autocorrelation of parameters at lag k <= tau + 1: (cos(k omega) + sin(Theta - k omega)) / (1 + sin Theta)."""
    omega, theta = angles(a, tau)
    return (math.cos(lag * omega) + math.sin(theta - lag * omega)) / (1.0 + math.sin(theta))


def stable_share(step: float, curvature: float, tau: int) -> float:
    """Return a = step * curvature; refuse values at which no stationary distribution exists."""
    a = step * curvature
    bound = f"below {critical(tau) / curvature:.6g} = a_c({tau}) / curvature"
    checks.require(a < critical(tau), "step", step, bound, "lower the learning rate (step) or the staleness")
    return a


def growth(a: float, tau: int) -> float:
    """Growth rate at delay tau, in nats per update: log of the largest root of z^{tau+1} - z^tau + a."""
    polynomial = np.zeros(tau + 2)
    polynomial[:2], polynomial[-1] = (1.0, -1.0), polynomial[-1] + a
    if tau == 0:
        polynomial[1] = a - 1.0
    return float(np.log(np.abs(np.roots(polynomial)).max()))


def growth_by_newton(a: float, tau: int) -> float:
    """Growth rate in nats per update by Newton's method on tau s + log(1 - e^s) = log a, from the Lambert W rate."""
    s = complex(lambertw(-a * (tau + 0.5))) / (tau + 0.5)
    for _ in range(60):
        z = cmath.exp(s)
        value = z**tau * (1.0 - z) - a
        s -= value / (z**tau * (tau * (1.0 - z) - z))
    return s.real


def growth_by_lambert(a: float, delay: float) -> float:
    """Growth rate in nats per update for long delays, Re W_0(-a T)/T with T = tau + 1/2 updates.

    >>> abs(growth_by_lambert(0.2, 16.5) / growth(0.2, 16) - 1.0) < 0.01
    True
    """
    return float(lambertw(-a * delay).real) / delay


def unstable(field: str, value: float, a: float, tau: int) -> None:
    """Refuse a learning rate that is not above the stability boundary, where no mode grows."""
    bound = f"such that step * curvature = {a:.4g} is above {1.001 * critical(tau):.6g}"
    checks.require(a > 1.001 * critical(tau), field, value, bound, "below the boundary nothing grows")
