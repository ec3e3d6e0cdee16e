r"""The maximum stable step if only a share of the gradient is stale.

if a share `m` of the gradient is stale, descent is stable iff `step < a_m(tau) / curvature`: if at most half of the
gradient is stale, staleness does not lower the limit of fresh gradients

x_{t+1} = x_t - step H ((1 - m) x_t + m x_{t-tau}): stable iff step * curvature < a_m(tau) for each curvature. A root of
z^{tau+1} - (1 - a (1 - m)) z^tau + a m leaves the disc at -1 or at e^{i phi}, m cos((tau + 1/2) phi) = -(1 - m)
cos(phi/2), where a = sin phi / (m sin tau phi); a_m is the smallest such a. So 0 <= m <= 1/2 leaves at least 2 for
every tau, m < 0 at least 2/(1 - 2 m). a_1 is that of constant staleness, and m > 1 is worse. Domain: linear gradient,
both parts with the same eigenvectors, m between -2 and 3. Second route: spectral radius of the block companion matrix.
"""

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, Staleness, Vector, lab, named, replaced, within
from asyncsim.claims._delay import critical, mixed_critical
from asyncsim.claims._recursion import marginal_step_mixed

_point = named("staleness", "share", curvatures=(2.0, 1.0))


class TwoPointField(Claim):
    kind, source = "threshold", "Kuruklis 1994 (J. Math. Anal. Appl. 188), scalar equation; boundary derived"

    staleness = Staleness(0, 64, typical=(0, 24), example=3)
    share = Real(-2.0, 3.0, typical=(-2.0, 3.0), example=0.75, doc="stale share of the gradient")
    curvatures = Vector(0.0, typical=(0.1, 9.0), sizes=(1, 3), example=(1.0, 0.5, 3.0), doc="curvatures of the modes")

    def predict(s) -> dict[str, float]:
        return {"step": mixed_critical(s.staleness, s.share) / float(s.curvatures.max())}

    def check(s) -> dict[str, float]:
        each = np.unique(s.curvatures)[:, None, None]
        return {"step": min(marginal_step_mixed(-(1.0 - s.share) * h, -s.share * h, s.staleness) for h in each)}

    wrong = {"current part taken at the stale point": lambda s: {"step": critical(s.staleness) / s.curvatures.max()}}

    points = (_point(3, 0.75), _point(1, 0.25), _point(4, 0.5), _point(2, 1.0))
    more = (_point(8, 0.625), _point(5, 0.25), _point(16, 0.875))

    def reach(self, point: Point) -> str | None:
        share = "a share from 0 to 1; take one, a batch has no others"
        return within(staleness=32)(point) or (None if 0.0 <= point["share"] <= 1.0 else share)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        each = np.eye(point["staleness"] + 1)
        law = each[0] * (1.0 - point["share"]) + each[-1] * point["share"]
        return {"step": lab.step_under(law.tolist(), point["curvatures"], seed, plant)}

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "all groups stale": lambda: replaced(system=lab.fixed(3, groups_per_batch=4)),
    }
