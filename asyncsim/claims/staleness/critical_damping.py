r"""The step at which stale descent decays fastest; at larger steps, descent oscillates.

under staleness `tau`, descent decays fastest, and just without oscillation, at `step * curvature = tau^tau / (tau +
1)^(tau + 1)`, where deviations shrink by `tau/(tau + 1)` per update

x_{t+1} = x_t - a x_{t-tau} has the largest root real iff a <= tau^tau / (tau+1)^{tau+1}. There it is double, tau/(tau +
1), and no other a decays faster. Derivation: real roots solve z^tau (1 - z) = a, whose left side is largest at tau/(tau
+ 1). For long delays it is 1/(e (tau + 1)), 0.234 of the largest stable step. Domain: tau >= 1, linear, noiseless.
Second route: the squared difference of the two largest companion roots, which changes sign there, and their mean.
"""

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Staleness, checks, lab, named

_PERIODS, _GRID, _LATE = 150, 4096, 3e-4
"""Length of a run in delays, steps on the way, and how near to the boundary a sign changes only behind that length."""
_point = named("staleness", curvature=2.0)


def _pair(a: float, tau: int) -> np.ndarray:
    """The two roots with the largest modulus."""
    roots = np.roots([1.0, -1.0, *[0.0] * (tau - 1), a])
    return roots[np.argsort(-np.abs(roots))][:2]


class CriticalDamping(Claim):
    kind, source, through = "threshold", "derived: double root of the characteristic equation", "loop"

    staleness = Staleness(1, 64, typical=(1, 24), example=4)
    curvature = Positive(typical=(0.1, 9.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")

    def predict(s) -> dict[str, float]:
        tau = s.staleness
        a = math.exp(tau * math.log(tau) - (tau + 1) * math.log(tau + 1))
        return {"step": a / s.curvature, "radius": tau / (tau + 1)}

    def check(s) -> dict[str, float]:
        def difference(a: float) -> float:
            first, second = _pair(a, s.staleness)
            return float(((first - second) ** 2).real)

        a = float(brentq(difference, 0.2 / (s.staleness + 1), 0.8 / (s.staleness + 1), xtol=1e-17, rtol=1e-14))
        return {"step": a / s.curvature, "radius": float(_pair(a, s.staleness).mean().real)}

    wrong = {
        "limit of long delays 1/(e (tau + 1))": lambda s: {"step": 1.0 / (math.e * (s.staleness + 1) * s.curvature)},
        "one update of memory fewer": lambda s: {"radius": 1.0 - 1.0 / s.staleness},
    }

    points = (_point(1), _point(2), _point(4))
    more = (_point(3), _point(8))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        delay = point["staleness"] + 1
        steps = np.geomspace(0.05, 1.0, _GRID) / delay / point["curvature"]
        build = lab.noiseless_descent((point["curvature"],), lab.fixed(point["staleness"]), plant)
        spec = build(tuple(steps), _PERIODS * delay).replace(diagnostics=[lab.PROBE])
        gradients = lab.running.run(spec, seed=seed, progress=False)["probe"]
        first = int(np.argmax((gradients * gradients[0] < 0.0).any(axis=0)))
        subject = "step from which gradients change their sign"
        checks.require(first > 0, subject, first, "inside the grid", "ask elsewhere")
        found = math.sqrt(steps[first - 1] * steps[first])
        # Late in a run two roots are left, nearly equal: values a delay apart obey a recurrence with their product.
        rows = gradients[20 * delay : 24 * delay : delay, first]
        product = (rows[1] * rows[3] - rows[2] ** 2) / (rows[0] * rows[2] - rows[1] ** 2)
        return {
            "step": Estimate(found, tolerance=float(steps[first] - steps[first - 1]) + _LATE * found, samples=_GRID),
            "radius": Estimate(float(product ** (0.5 / delay)), tolerance=1e-3 / delay, samples=1),
        }

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _point(4)),
        "momentum inserted": lambda: (lab.momentum_inserted, _point(2)),
    }
