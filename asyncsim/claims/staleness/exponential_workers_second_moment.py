r"""With exponential workers, the mean square is stable only at far smaller steps than the mean.

with `M` workers of exponential duration that update on arrival, the mean square is bounded iff `step * curvature < (1 +
sqrt(8 M + 1))/(2 M)`, about `sqrt(2/M)`

E x^2 stays bounded iff step * curvature < (1 + sqrt(8 M + 1))/(2 M), about sqrt(2/M); the mean allows 4 M - 2, a
constant staleness of M - 1 about pi/(2 M). Derivation: with read values y, X = E x^2, P = E x y_i, Y = E y_i^2, Z = E
y_i y_j obey X' = X - 2 a P + a^2 Y, P' = X'/M + (1 - 1/M)(P - a Z), Y' = X'/M + (1 - 1/M) Y, Z' = (2/M)(P - a Z) + (1 -
2/M) Z. This map K has det(I - K) = -2 a (M a^2 - a - 2)/M^3. Domain: linear gradient, M workers with independent
exponential times of one rate, each reads after its own update. Second route: root finding on the radius of K, and E
x_T^2 over every order of workers.
"""

import math

import numpy as np

from asyncsim.claims._claim import Estimate, Plant, Point, Real, lab, units_for, within
from asyncsim.claims._random import ExponentialWorkers, paths
from asyncsim.claims._recursion import first_unstable

_VALUES = 8
"""Values of E x_t^2 that determine its four roots."""
_POINT = {"workers": 3, "updates": 4, "curvature": 2.0, "share": 0.2}


def _map(a: float, workers: int) -> np.ndarray:
    """Transition matrix K of the second moments (X, P, Y, Z)."""
    m, keep = 1.0 / workers, 1.0 - 1.0 / workers
    x = np.array([1.0, -2.0 * a, a * a, 0.0])
    other = np.array([0.0, 1.0, 0.0, -a])
    return np.array([x, m * x + keep * other, m * x + [0, 0, keep, 0], 2 * m * other + [0, 0, 0, 1.0 - 2 * m]])


class ExponentialWorkersSecondMoment(ExponentialWorkers):
    kind, source, through = "threshold", "derived: recursion of the moments of iterate and read values", "kernel, loop"

    share = Real(0.0, 2.0, typical=(0.01, 1.0), example=0.5, doc="step * curvature of the run")

    def predict(s) -> dict[str, float]:
        boundary = (1.0 + math.sqrt(8.0 * s.workers + 1.0)) / (2.0 * s.workers)
        moments = np.linalg.matrix_power(_map(s.share, s.workers), s.updates) @ np.ones(4)
        return {"step": boundary / s.curvature, "second_moment": float(moments[0])}

    def check(s) -> dict[str, float]:
        last = paths(s.workers, s.updates, np.ones(1), lambda read: -s.share * read)[:, -1, 0]
        boundary = first_unstable(lambda a: _map(a, s.workers), 0.2 / s.workers, 2.5)
        return {"step": boundary / s.curvature, "second_moment": float((last**2).mean())}

    wrong = {
        "boundary of the mean": lambda s: {"step": (4.0 * s.workers - 2.0) / s.curvature},
        "limit of many workers sqrt(2/M)": lambda s: {"step": math.sqrt(2.0 / s.workers) / s.curvature},
    }

    points = (_POINT, {**_POINT, "workers": 2})
    more = ({**_POINT, "workers": 4},)
    reach = staticmethod(within(workers=4))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        curvature, updates = point["curvature"], point["updates"]
        system, size = lab.paths.of_workers(point["workers"], updates, units_for(0.45, effect, 6), seed)
        spec = lab.paths.from_one(curvature, system, point["share"] / curvature, updates=updates, **size)
        second = lab.paths.mean_of(lab.run(spec, seed, plant).parameters[:, 0] ** 2)
        # List all orders for the boundary.
        bracket = (0.1 / point["workers"] / curvature, 2.5 / curvature)
        orders = lab.paths.orders(point["workers"], _VALUES)
        step = lab.paths.moment_boundary(*orders, curvature, bracket, seed, plant)
        return {"step": step, "second_moment": second}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "workers in rotation": lambda: lab.paths.in_rotation,
    }
