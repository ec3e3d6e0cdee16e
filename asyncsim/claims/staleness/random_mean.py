r"""If staleness is drawn anew for every update, the mean follows the averaged recursion, which also gives its limit.

if staleness is drawn for every update, mean descent obeys `z - 1 + a sum_d p_d z^-d = 0`: uniform staleness up to `S`
allows about `pi` times the learning rate of constant staleness `S`

E x_{t+1} = E x_t - a sum_d p_d E x_{t-d}: the draw is independent of the past. It decays iff a is below the first
positive (1 - z) / sum p_d z^-d on the unit circle. For equal chances of 0..S that is 2 (S + 1) sin^2(pi/(2 (S + 1))):
about pi times the boundary of staleness S, and pi/2 times that of its mean. A gradient of which a share m is stale by
tau has this recursion too, with chances 1 - m of 0 and m of tau: m up to a half leaves 2 or more for every tau.
Domain: linear gradient, the mean alone; the mean square diverges earlier (`staleness/random-mean-square`). Second
route: the mean over every sequence of draws, and root finding on the radius of the averaged companion matrix.
"""

import numpy as np

from asyncsim.claims import _random, lab
from asyncsim.claims._claim import Count, Estimate, Plant, Point, Real, replaced, sim, units_for
from asyncsim.claims._delay import critical
from asyncsim.claims._random import RandomDelays, check_paths, enumerated
from asyncsim.claims._recursion import first_unstable

_UNEVEN = {"law": (0.25, 0.0, 0.25, 0.5), "curvature": 2.0, "share": 0.15, "updates": 5}


class RandomMean(RandomDelays):
    kind, source, through = "threshold", "derived: the draw is independent of the past", "loop"

    share = Real(0.0, 2.0, typical=(0.01, 1.0), example=0.7, doc="step * curvature of the run")
    updates = Count(1, 12, typical=(1, 6), example=6, unit="updates", doc="updates of the run")

    def joint(self) -> None:
        check_paths(self.law, self.updates)

    def quantities(s, law: np.ndarray, boundary: float) -> dict[str, float]:
        mean = np.linalg.matrix_power(_random.averaged(law, s.share), s.updates)[0].sum()
        return {"step": boundary / s.curvature, "mean": float(mean)}

    def predict(s) -> dict[str, float]:
        return s.quantities(s.law, _random.mean_boundary(s.law))

    def check(s) -> dict[str, float]:
        last, mass = enumerated(s.law, s.share, s.updates)
        boundary = first_unstable(lambda a: _random.averaged(s.law, a), 0.2 / len(s.law), 6.0)
        return {"step": boundary / s.curvature, "mean": float(mass @ last)}

    wrong = {
        "largest staleness taken as constant": lambda s: s.quantities(np.eye(len(s.law))[-1], critical(len(s.law) - 1))
    }

    points = (_UNEVEN, {**_UNEVEN, "law": (0.25,) * 4})
    more = (
        {**_UNEVEN, "law": (0.2,) * 5, "share": 0.12},
        {**_UNEVEN, "law": (0.5, 0.5)},
        {**_UNEVEN, "law": (0.5, 0.0, 0.0, 0.0, 0.5)},
        {**_UNEVEN, "law": (0.25, 0.0, 0.0, 0.75)},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        trace = lab.paths.drawn(point, sim.schedules.random(point["law"]), units_for(0.3, effect, 6), seed, plant)
        mean = lab.paths.mean_of(trace.parameters[:, 0], trace.realization)
        return {"step": lab.step_under(point["law"], (point["curvature"],), seed, plant), "mean": mean}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "always the largest staleness": lambda: replaced(system=sim.schedules.random((0.0, 0.0, 0.0, 1.0))),
    }
