r"""Exponential workers are far less stable in mean square than the momentum of their mean suggests.

E x^2 stays bounded iff step * curvature < (1 + sqrt(8 M + 1))/(2 M), about sqrt(2/M); the mean allows 4 M - 2, a
constant staleness of M - 1 about pi/(2 M). Derivation: with read values y, X = E x^2, P = E x y_i, Y = E y_i^2, Z = E
y_i y_j obey X' = X - 2 a P + a^2 Y, P' = X'/M + (1 - 1/M)(P - a Z), Y' = X'/M + (1 - 1/M) Y, Z' = (2/M)(P - a Z) + (1 -
2/M) Z. This map K has det(I - K) = -2 a (M a^2 - a - 2)/M^3. Domain: linear gradient, M workers with independent
exponential times of one rate, each reads after its own update. Second route: root finding on the radius of K, and E
x_T^2 over every order of workers. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.theory._delay import critical
from asyncsim.theory._recursion import first_crossing
from asyncsim.theory._stated import stated
from asyncsim.theory.staleness._orders import ExponentialWorkers, paths, share_of_run


class _Setting(ExponentialWorkers):
    share = share_of_run()


def _map(a: float, workers: int, reread: float = 1.0) -> np.ndarray:
    """K on (X, P, Y, Z); `reread` 0: a worker keeps what it had read."""
    m, keep = reread / workers, 1.0 - reread / workers
    x = np.array([1.0, -2.0 * a, a * a, 0.0])
    other = np.array([0.0, 1.0, 0.0, -a])
    return np.array([x, m * x + keep * other, m * x + [0, 0, keep, 0], 2 * m * other + [0, 0, 0, 1.0 - 2 * m]])


def _quantities(s: _Setting, boundary: float, moment: float) -> dict[str, float]:
    return {"step": boundary / s.curvature, "second_moment": moment}


def _iterated(s: _Setting, reread: float = 1.0) -> float:
    return float((np.linalg.matrix_power(_map(s.share, s.workers, reread), s.updates) @ np.ones(4))[0])


def _closed(workers: int) -> float:
    return (1.0 + math.sqrt(8.0 * workers + 1.0)) / (2.0 * workers)


def _cross_check(s: _Setting) -> dict[str, float]:
    def excess(a: float) -> float:
        return float(np.abs(np.linalg.eigvals(_map(a, s.workers))).max()) - 1.0

    last = paths(s.workers, s.updates, np.ones(1), lambda read: -s.share * read)[:, -1, 0]
    return _quantities(s, first_crossing(excess, 0.2 / s.workers, 2.5), float((last**2).mean()))


claim = stated(
    id="staleness/exponential-workers-second-moment",
    statement="with `M` exponential workers updating on arrival the mean square stays bounded iff "
    "`step * curvature < (1 + sqrt(8 M + 1))/(2 M)`, about `sqrt(2/M)`",
    kind="threshold",
    status="exact",
    point=_Setting,
    predict=lambda s: _quantities(s, _closed(s.workers), _iterated(s)),
    cross_check=_cross_check,
    reference="derived: recursion of the moments of iterate and read values",
    formula_defects={
        "boundary of the mean": lambda s: _quantities(s, 4.0 * s.workers - 2.0, _iterated(s)),
        "limit of many workers sqrt(2/M)": lambda s: _quantities(s, math.sqrt(2.0 / s.workers), _iterated(s)),
        "constant staleness M - 1": lambda s: _quantities(s, critical(s.workers - 1), _iterated(s)),
        "read value kept after the own update": lambda s: _quantities(s, _closed(s.workers), _iterated(s, 0.0)),
    },
)
