r"""Among distributions of staleness with a given mean, constant staleness appears to have the smallest stable step.

of all distributions of staleness with one mean, drawn for every update, constant staleness allows the smallest step:
`step * curvature >= 2 sin(pi/(2 (2 E d + 1)))`

The mean under independent draws decays up to a_p, the first positive (1 - z) / sum p_d z^-d on the unit circle; no law
is known with a_p < 2 sin(pi / (2 (2 E d + 1))). Stated for 1/step, of which this is an upper bound. It is attained by a
constant staleness; for means between integers no law reaches it. Domain: mean of descent, one draw an update. Status
open: 6,000 random laws up to staleness 21 have no counterexample, and there is no proof in discrete time. Second route:
the phase of the characteristic equation of a delay that is no integer.
"""

import math

import numpy as np
from scipy.optimize import brentq

from asyncsim.claims._claim import Estimate, Plant, Point, lab, multiplied
from asyncsim.claims._random import RandomDelays


def _point(*law: float) -> Point:
    return {"law": law, "curvature": 2.0}


class ConstantIsWorst(RandomDelays):
    kind, status, source, through = "bound", "open", "numerical search; no proof in discrete time", "loop"

    def joint(self) -> None:
        self.mean = float(self.law @ np.arange(len(self.law)))

    def bound(s, mean: float) -> dict[str, float]:
        return {"inverse_step": s.curvature / (2.0 * math.sin(math.pi / (2.0 * (2.0 * mean + 1.0))))}

    def predict(s) -> dict[str, float]:
        return s.bound(s.mean)

    def check(s) -> dict[str, float]:
        def phase(phi: float) -> float:
            """Phase of z^mean (1 - z) / i minus pi/2, which is 0 at the first crossing."""
            return float(s.mean * phi + np.angle(1j * (1.0 - np.exp(1j * phi))) - math.pi / 2.0)

        phi = math.pi if s.mean == 0.0 else float(brentq(phase, 1e-9, math.pi, xtol=1e-16, rtol=1e-15))
        return {"inverse_step": s.curvature / float(abs(1.0 - np.exp(1j * phi)))}

    wrong = {"staleness rounded down": lambda s: s.bound(math.floor(0.9 * s.mean))}
    terms = {"constant staleness": multiplied("inverse_step")}

    points = (_point(*[0.0] * 4, 1.0), _point(0.5, 0.5), _point(0.75, 0.0, 0.0, 0.25), _point(0.0, 0.125, 0.75, 0.125))
    more = (_point(0.0, 1.0), _point(0.875, *[0.0] * 7, 0.125), _point(0.0, 0.0, 0.5, 0.5))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        step = lab.step_under(point["law"], (point["curvature"],), seed, plant)
        inverse = 1.0 / step.value
        return {"inverse_step": step._replace(value=inverse, tolerance=step.tolerance * inverse / step.value)}

    defects = {"off-by-one version": lambda: lab.off_by_one_version, "momentum inserted": lambda: lab.momentum_inserted}
