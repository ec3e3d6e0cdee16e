r"""The linear model whose delay is drawn anew for every update: covariances, and descent over every sequence of draws.

x_{t+1} = x_t - a x_{t-d} - step xi with P(d = k) = p_k. Given the past, the drawn delay adds noise whose mean is 0. So
the covariances are those of the averaged recursion under white noise of variance V: gamma_k = V phi_k. Here V = (step
sigma)^2 / (1 - a^2 (phi_0 - sum p_d p_e phi_{|d-e|})). The denominator reaches 0 at the mean-square boundary, before
the averaged recursion itself turns unstable. Source: derived.
"""

import itertools
from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import brentq

from asyncsim.base import checks
from asyncsim.claims._claim import Claim, Count, Integer, Positive, Vector


def staleness_law(more: str, *example: float) -> Vector:
    """Declare the probabilities of staleness 0, 1, ...; `more` adds a condition to the description."""
    doc, remedy = f"probabilities of staleness 0, 1, ...{more}", "give the probabilities of staleness 0, 1, ..."
    return Vector(example=example, doc=doc, remedy=remedy)


def companions(law: np.ndarray, a: float) -> list[np.ndarray]:
    """Companion matrices A_d `[S+1, S+1]`: the newest iterate moves by -a times the iterate d updates older."""
    matrices = [np.eye(len(law), k=-1) for _ in law]
    for delay, matrix in enumerate(matrices):
        matrix[0, 0] = 1.0
        matrix[0, delay] -= a
    return matrices


def averaged(law: np.ndarray, a: float) -> np.ndarray:
    """Companion matrix of the delayed recursion, averaged over the distribution of delays."""
    return np.einsum("d,dij->ij", law, np.array(companions(law, a)))


def unit_covariances(law: np.ndarray, a: float, lags: int) -> np.ndarray:
    """Autocovariances phi_0..phi_lags of the averaged recursion under unit white noise."""
    matrix = averaged(law, a)
    noise = np.zeros((len(law), len(law)))
    noise[0, 0] = 1.0
    column = solve_discrete_lyapunov(matrix, noise)[:, 0]
    covariances = [column[0]]
    for _ in range(lags):
        column = matrix @ column
        covariances.append(column[0])
    return np.array(covariances)


def slack(law: np.ndarray, a: float, groups: int = 1) -> float:
    """Mean-square stability margin 1 - a^2/B (phi_0 - sum p_d p_e phi_{|d-e|}) for B delays; -1 if unstable."""
    if np.abs(np.linalg.eigvals(averaged(law, a))).max() >= 1.0:
        return -1.0
    phi = unit_covariances(law, a, len(law) - 1)
    index = np.arange(len(law))
    return max(1.0 - float(a * a / groups * (phi[0] - law @ phi[np.abs(index[:, None] - index)] @ law)), -1.0)


def mean_square_boundary(law: np.ndarray, groups: int = 1) -> float:
    """Largest a = step * curvature at which E x^2 stays finite, with `groups` independent delays per update.

    >>> [round(mean_square_boundary(np.array([0.5, 0.5]), b), 6) for b in (1, 4)]
    [1.236068, 1.656854]
    >>> round(mean_square_boundary(np.array([0.0, 0.0, 1.0])), 6)
    0.618034
    """
    low = high = 0.25 / len(law)
    while slack(law, high, groups) > 0.0:
        high *= 1.03
    # The bracket lies on a grid below 2, so that a boundary has the same last digits whatever asks for it.
    top = max(2.0, high)
    while top > low and (top >= high or slack(law, top, groups) <= 0.0):
        top *= 0.97

    # Where a constant delay leaves no noise, the slack jumps from 1 to -1; bisection still works.
    def sign(a: float) -> float:
        return 1.0 if slack(law, a, groups) > 0.0 else -1.0

    return float(brentq(sign, top, top / 0.95, xtol=1e-13, rtol=1e-13))


def mean_boundary(law: np.ndarray) -> float:
    """Largest a at which the mean recursion decays: the first positive (1 - z) / sum p_d z^-d on the unit circle."""
    powers = np.arange(len(law))

    def ratio(phi: float) -> complex:
        z = np.exp(1j * phi)
        return complex((1.0 - z) * np.conj(law @ z**-powers))

    grid = np.linspace(0.0, np.pi, 64 * len(law) + 2)[1:-1]
    z = np.exp(1j * grid)
    values = ((1.0 - z) * np.conj((z[:, None] ** -powers) @ law)).imag
    angles = [
        float(brentq(lambda phi: ratio(phi).imag, grid[k], grid[k + 1], xtol=1e-16, rtol=1e-15))
        for k in np.flatnonzero(values[:-1] * values[1:] < 0.0)
    ]
    found = [np.exp(1j * phi) for phi in angles] + [-1.0 + 0.0j]
    steps = [((1.0 - z) / (law @ z**-powers)).real if abs(law @ z**-powers) > 1e-12 else np.inf for z in found]
    return float(min(step for step in steps if step > 0.0))


def check_law(law: np.ndarray, longest: int) -> None:
    """Refuse probabilities that do not form a distribution of staleness 0, 1, ..., `longest`."""
    fits = bool((law >= 0.0).all()) and abs(float(law.sum()) - 1.0) < 1e-9 and law[-1] > 0.0
    bound = f"probabilities of at most {longest + 1} values that add up to 1, the last above 0"
    checks.require(fits and len(law) <= longest + 1, "law", law.tolist(), bound, "divide by their sum")


def stable(step: float, curvature: float, law: np.ndarray) -> float:
    """Return a = step * curvature; refuse values at or above the mean-square stability boundary."""
    a = step * curvature
    if a >= 2.0 or slack(law, a) <= 0.0:
        bound = f"below {mean_square_boundary(law) / curvature:.6g}, the mean-square boundary"
        checks.require(False, "step", step, bound, "lower the learning rate (step)")
    return a


class RandomDelays(Claim):
    """Base class of claims with one curvature and a distribution of staleness."""

    law = staleness_law("", 0.4, 0.0, 0.6)
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        check_law(self.law, 24)


def check_paths(law: np.ndarray, updates: int, groups: int = 1) -> None:
    """Refuse runs with too many sequences of drawn delays to enumerate."""
    values, remedy = int(np.count_nonzero(law)), "shorten the run or the law"
    checks.power("values ** draws", values, updates * groups, 2**16, "sequences of draws", remedy)


def enumerated(law: np.ndarray, share: float, updates: int, groups: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """x_T from x_0 = 1 for every sequence of draws `[K]`, and their probabilities `[K]`; `share` = step * curvature."""
    # All ordered stalenesses of an update `[O, B]`, and their chances `[O]`.
    shifts = np.array(list(itertools.product(np.flatnonzero(law), repeat=groups)))
    chance = law[shifts].prod(axis=1)
    path, mass = np.ones((1, 1)), np.ones(1)
    for t in range(updates):
        read = np.maximum(t - shifts, 0)
        following = path[:, None, -1] - share * path[:, read].mean(axis=-1)
        path = np.column_stack([np.repeat(path, len(shifts), axis=0), following.ravel()])
        mass = np.outer(mass, chance).ravel()
    return path[:, -1], mass


class ExponentialWorkers(Claim):
    """Base class of claims on M workers whose order of deliveries is independent and uniform."""

    workers = Integer(2, 64, typical=(2, 4), example=3, doc="workers that update on arrival", remedy="have two or more")
    updates = Count(1, 12, typical=(1, 6), example=5, unit="updates", doc="updates of the run")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def joint(self) -> None:
        remedy = "shorten the run, or have fewer workers"
        checks.power("workers ** updates", self.workers, self.updates, 2**14, "orders", remedy)


def paths(workers: int, updates: int, start: np.ndarray, move: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Iterates for all equally likely orders of workers, `[K, T+1, P]`; an update is `move` of the parameters read."""
    orders = np.array(list(itertools.product(range(workers), repeat=updates)))
    rows = np.arange(len(orders))
    read = np.broadcast_to(start, (len(orders), workers, start.size)).copy()
    iterates = [np.broadcast_to(start, (len(orders), start.size))]
    for t in range(updates):
        worker = orders[:, t]
        iterates.append(iterates[-1] + move(read[rows, worker]))
        read[rows, worker] = iterates[-1]
    return np.stack(iterates, axis=1)
