r"""Delayed gradient descent is stable up to a learning rate of a_c(staleness) divided by the maximum curvature.

gradient descent at staleness `tau` is stable iff `step * curvature < 2 sin(pi/(2(2 tau+1)))`

x_{t+1} = x_t - step H x_{t-tau} (+ noise): mean and variance are stable iff 0 < step * curvature < a_c for each
curvature. a_c(tau) = 2 sin(pi / (2 (2 tau + 1))). Derivation: a root of z^{tau+1} - z^tau + a leaves the disc at z =
e^{i phi}. z^tau (1 - z) = a is real and positive first at phi = pi / (2 tau + 1), where |1 - z| = 2 sin(phi / 2).
Domain: linear gradient, plain gradient descent, constant staleness in updates. Second route: root finding on the
spectral radius.
"""

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Staleness, Vector, lab, within
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import marginal_step


class StabilityBoundary(Claim):
    kind, source, through = "threshold", "Levin and May 1976 (Theor. Popul. Biol. 9); arXiv 1910.05124", "loop"

    staleness = Staleness(typical=(0, 24), example=4)
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")

    def predict(s) -> dict[str, float]:
        return {"step": critical(s.staleness) / float(s.curvatures.max())}

    def check(s) -> dict[str, float]:
        return {"step": min(marginal_step(np.array([[-h]]), s.staleness) for h in np.unique(s.curvatures))}

    wrong = {
        "staleness one too large": lambda s: {"step": critical(s.staleness + 1) / float(s.curvatures.max())},
        "sufficient condition 1/(L(1+tau)) as boundary": lambda s: {
            "step": 1.0 / (s.curvatures.max() * (1 + s.staleness))
        },
    }

    points = tuple({"staleness": s, "curvatures": (1.0, 0.25)} for s in (0, 1, 2, 4, 8))
    more = ({"staleness": 16, "curvatures": (2.0,)}, {"staleness": 3, "curvatures": (0.5, 1.0, 3.0)})
    reach = staticmethod(within(staleness=64))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        tau = point["staleness"]
        return {"step": lab.largest_step(point["curvatures"], lab.fixed(tau), tau, 4.0, seed, plant)}

    defects = {"off-by-one version": lambda: (lab.off_by_one_version, {"staleness": 4, "curvatures": (1.0, 0.25)})}
