r"""Covariances of the linear model whose delay is drawn anew for every update.

x_{t+1} = x_t - a x_{t-d} - step xi with P(d = k) = p_k. Given the past, the drawn delay adds noise whose mean is 0. So
the covariances are those of the averaged recursion under white noise of variance V: gamma_k = V phi_k. Here V = (step
sigma)^2 / (1 - a^2 (phi_0 - sum p_d p_e phi_{|d-e|})). The denominator reaches 0 at the mean-square boundary, before
the averaged recursion itself turns unstable. Source: derived.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import brentq

from asyncsim.base import checks


def companions(law: np.ndarray, a: float) -> list[np.ndarray]:
    """A_d `[S+1, S+1]` for each delay d: the newest iterate moves by -a times the one d updates older."""
    size = len(law)
    shift = np.eye(size, k=-1)
    shift[0, 0] = 1.0
    matrices = []
    for delay in range(size):
        matrix = shift.copy()
        matrix[0, delay] -= a
        matrices.append(matrix)
    return matrices


def averaged(law: np.ndarray, a: float) -> np.ndarray:
    """Companion matrix of the averaged recursion."""
    return np.einsum("d,dij->ij", law, np.array(companions(law, a)))


def unit_covariances(law: np.ndarray, a: float, lags: int) -> np.ndarray:
    """phi_0..phi_lags of the averaged recursion under unit white noise."""
    matrix = averaged(law, a)
    noise = np.zeros((len(law), len(law)))
    noise[0, 0] = 1.0
    column = solve_discrete_lyapunov(matrix, noise)[:, 0]
    covariances = [column[0]]
    for _ in range(lags):
        column = matrix @ column
        covariances.append(column[0])
    return np.array(covariances)


def slack(law: np.ndarray, a: float) -> float:
    """1 - a^2 (phi_0 - sum p_d p_e phi_{|d-e|}), at most 0 where the mean square is unstable.

    >>> abs(slack(np.array([0.5, 0.5]), 5**0.5 - 1)) < 1e-12
    True
    """
    if np.abs(np.linalg.eigvals(averaged(law, a))).max() >= 1.0:
        return -1.0
    phi = unit_covariances(law, a, len(law) - 1)
    index = np.arange(len(law))
    return float(1.0 - a * a * (phi[0] - law @ phi[np.abs(index[:, None] - index)] @ law))


def mean_square_boundary(law: np.ndarray) -> float:
    """Largest a = step * curvature at which E x^2 stays finite.

    >>> round(mean_square_boundary(np.array([0.5, 0.5])), 6)
    1.236068
    >>> round(mean_square_boundary(np.array([0.0, 0.0, 1.0])), 6)
    0.618034
    """
    top = 2.0
    low = 0.25 / len(law)
    while top > low and slack(law, top) <= 0.0:
        top *= 0.97
    # Where a constant delay leaves no noise, the slack jumps from 1 to -1; bisection still works.
    return float(brentq(lambda a: 1.0 if slack(law, a) > 0.0 else -1.0, top, top / 0.95, xtol=1e-13, rtol=1e-13))


def stable(step: float, curvature: float, law: np.ndarray) -> float:
    """a = step * curvature, refused at or above the mean-square boundary."""
    a = step * curvature
    if a >= 2.0 or slack(law, a) <= 0.0:
        limit = mean_square_boundary(law) / curvature
        checks.require(
            False, "step", step, f"below {limit:.6g}, the mean-square boundary", "lower the learning rate (step)"
        )
    return a
