r"""If weights are published every `s` updates, stability depends only on the product of s and the learning rate.

with a publish every `s` updates, training is stable iff `s * step * curvature < a_c(m)`, where data are trained `m`
versions after their generation; the limit is 2 for every `s` at `m = 0`

Updates of a cycle all read the weights published m cycles before its start, so that cycle starts obey X_{k+1} = X_k - s
a X_{k-m}. Hence stable iff s * step * curvature < a_c(m): 2 for data of the newest version whatever s, 1 one version
late. Constant staleness of s - 1 updates would allow up to pi/2 for long cycles. Domain: linear gradient, one update a
batch, m in versions. Second route: product of the companion matrices of one cycle's updates, staleness ms, ms + 1, ..
in turn, and root finding on its spectral radius.
"""

import numpy as np

from asyncsim.claims import lab
from asyncsim.claims._claim import Claim, Count, Estimate, Integer, Plant, Point, Vector, named, replaced, sim, within
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import first_unstable

_point = named("updates", "versions", curvatures=(2.0,))


class Sawtooth(Claim):
    kind, source, through = "threshold", "derived: cycle starts obey the recursion of constant staleness", "loop"

    updates = Count(1, 64, typical=(1, 12), example=6, unit="updates", doc="updates between two publishes")
    versions = Integer(0, 16, typical=(0, 3), example=1, unit="versions", doc="versions from generation to training")
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")

    def joint(self) -> None:
        """Limit the cycle length, because the check multiplies matrices of that size."""
        count = self.updates * (self.versions + 1)
        self.require(count <= 128, "updates", "updates (versions + 1) <= 128", "shorten the cycle")
        self.curvature = float(self.curvatures.max())

    def predict(s) -> dict[str, float]:
        return {"step": critical(s.versions) / s.updates / s.curvature}

    def check(s) -> dict[str, float]:
        def cycle(a: float) -> np.ndarray:
            """Transition matrix from one cycle start to the next."""
            size = s.updates * (s.versions + 1)
            product = np.eye(size)
            for phase in range(s.updates):
                companion = np.eye(size, k=-1)
                companion[0, 0] += 1.0
                companion[0, s.versions * s.updates + phase] -= a
                product = companion @ product
            return product

        return {"step": first_unstable(cycle, 0.5 / s.updates / (s.versions + 1), 4.0 / s.updates) / s.curvature}

    wrong = {
        "largest staleness taken as constant": lambda s: {
            "step": critical((s.versions + 1) * s.updates - 1) / s.curvature
        }
    }

    points = (_point(4, 1), _point(8, 0), _point(3, 2, curvatures=(2.0, 1.0)))
    more = (_point(1, 1), _point(16, 0), _point(12, 2))
    reach = staticmethod(within(versions=8))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        cycle, versions = point["updates"], point["versions"]
        system = lab.fixed(versions, batches_per_publish=cycle) if versions else sim.schedules.sawtooth(cycle)
        return {"step": lab.largest_step(point["curvatures"], system, versions, 5.0, seed, plant, every=cycle)}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _point(8, 0)),
        "published an update late": lambda: (replaced(system=sim.schedules.sawtooth(9)), _point(8, 0)),
        "staleness in updates": lambda: replaced(system=lab.fixed(4)),
    }
