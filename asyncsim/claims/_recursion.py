"""Linear algebra of delayed recursions: companion matrices, Lyapunov equations, impulse responses.

The second route to what `_delay` has in closed form; the two share no formula.
"""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import brentq


def radius(field: np.ndarray, step: float, tau: int, current: np.ndarray | None = None) -> float:
    """Spectral radius of y_{t+1} = y_t + step * (field y_{t-tau} + current y_t), fields `[D, D]`."""
    size = len(field)
    companion = np.eye(size * (tau + 1), k=-size)
    companion[:size, :size] += np.eye(size) if current is None else np.eye(size) + step * current
    companion[:size, size * tau :] += step * field
    return float(np.abs(np.linalg.eigvals(companion)).max())


def first_unstable(matrix: Callable[[float], np.ndarray], low: float, high: float) -> float:
    """Parameter at which a matrix's spectral radius first exceeds 1, by a geometric grid and root finding."""

    def excess(a: float) -> float:
        return float(np.abs(np.linalg.eigvals(matrix(a))).max()) - 1.0

    grid = np.geomspace(low, high, 160)
    for before, after in itertools.pairwise(grid):
        if excess(after) >= 0.0:
            return float(brentq(excess, before, after, xtol=1e-15, rtol=1e-14))
    raise ArithmeticError(f"no crossing below {high}")


def marginal_step_mixed(current: np.ndarray, stale: np.ndarray, tau: int) -> float:
    """Learning rate at which the spectral radius reaches 1, for current and stale fields whose sum decays.

    Both parts share their eigenvectors. The product of all roots of a mode is step * its stale part, and no mode
    decays beyond step * curvature = 4.
    """
    norms = [float(np.linalg.norm(field, 2)) for field in (current + stale, current, stale)]
    low, high = 0.1 / (tau + 1) / (norms[1] + norms[2]), 4.5 / norms[0]
    return float(brentq(lambda s: radius(stale, s, tau, current) - 1.0, low, high, xtol=1e-15, rtol=1e-14))


def marginal_step(field: np.ndarray, tau: int) -> float:
    """Learning rate at which the spectral radius reaches 1, by root finding from a stable to an unstable rate.

    `field` has real negative eigenvalues, of which the largest crosses first; rounding of flat modes looks like growth.
    A product step * curvature of 1/(2 (tau + 1)) decays (below the boundary for every delay), one of 4 grows.
    """
    mode, curvature = np.array([[-1.0]]), float(np.abs(np.linalg.eigvals(field)).max())
    product = brentq(lambda a: radius(mode, a, tau) - 1.0, 0.5 / (tau + 1), 4.0, xtol=1e-15, rtol=1e-14)
    return float(product) / curvature


def autocovariance(
    curvature: float, step: float, noise: float, tau: int, lags: Iterable[int]
) -> tuple[float, list[float]]:
    """Stationary (E g^2, [E g_t g_{t+k} for k in lags, k >= 1]) of the linear model, from its Lyapunov equation."""
    size = tau + 1
    companion = np.eye(size, k=-1)
    companion[0, 0] += 1.0
    companion[0, tau] -= step * curvature
    noise_input = np.zeros(size)
    noise_input[0] = -step
    readout = np.zeros(size)
    readout[tau] = curvature
    law = solve_discrete_lyapunov(companion, noise**2 * np.outer(noise_input, noise_input))
    power = float(readout @ law @ readout) + noise**2
    covariances = []
    for lag in lags:
        propagator = np.linalg.matrix_power(companion, lag - 1)
        covariances.append(float(readout @ propagator @ (companion @ law @ readout + noise**2 * noise_input)))
    return power, covariances


def second_moments(curvature: float, start: float, noise: float, step: float, tau: int, updates: int) -> np.ndarray:
    """E x_t^2 for t < updates from x_{-k} = start, float64 `[updates]`: squared mean plus squared impulse response."""
    a = step * curvature
    mean, impulse = np.empty(updates), np.empty(updates)
    mean[0], impulse[0] = start, 1.0
    for t in range(1, updates):
        source = t - 1 - tau
        mean[t] = mean[t - 1] - a * (mean[source] if source >= 0 else start)
        impulse[t] = impulse[t - 1] - a * (impulse[source] if source >= 0 else 0.0)
    noise_energy = np.concatenate([[0.0], np.cumsum(impulse[:-1] ** 2)])
    return mean**2 + (step * noise) ** 2 * noise_energy
