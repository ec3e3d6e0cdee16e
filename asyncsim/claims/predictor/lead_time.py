r"""Beyond the stability limit, the time from an alarm to a collapse is ln(R/F) divided by one root's growth rate.

delayed descent grows from amplitude `F` to `R` in `ln(R/F)/ln|z|` updates, about `(tau + 1/2) ln(R/F)/Re W_0(-a (tau +
1/2))`

x_{t+1} = x_t - a x_{t-tau}, a = step * curvature, grows like |z|^t, z the largest root of z^{tau+1} - z^tau + a. From
amplitude F to amplitude R it takes ln(R/F)/ln|z| updates, within 2 percent of (tau + 1/2) ln(R/F)/Re W_0(-a (tau +
1/2)) from tau = 8 on: long next to the boundary, a few periods of staleness far behind it. Derivation: other roots have
died out. Domain: one unstable mode at constant delay, both amplitudes above noise, mean over levels of one ratio.
Second route: Newton's method on z = e^s.
"""

import math

from asyncsim.claims import _delay, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Real, Staleness, named

_point = named("staleness", "step", "curvature", "ratio")


class LeadTime(Claim):
    kind, status, source, through = "expectation", "asymptotic", "derived", "loop"

    staleness = Staleness(1, 64, typical=(1, 32), example=8)
    step = Positive(example=0.3, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.2, 5.0), example=1.0, unit="gradient per parameter", doc="curvature of the mode")
    ratio = Real(2.0, 1e60, typical=(10.0, 1e6), example=1e6, doc="amplitude at collapse divided by that at the alarm")

    def joint(self) -> None:
        _delay.unstable("step", self.step, self.step * self.curvature, self.staleness)

    def lead(s, growth: float) -> dict[str, float]:
        return {"lead": math.log(s.ratio) / growth}

    def predict(s) -> dict[str, float]:
        return s.lead(_delay.growth(s.step * s.curvature, s.staleness))

    def check(s) -> dict[str, float]:
        return s.lead(_delay.growth_by_newton(s.step * s.curvature, s.staleness))

    wrong = {"tau in place of tau + 1/2": lambda s: s.lead(_delay.growth_by_lambert(s.step * s.curvature, s.staleness))}

    points = (_point(8, 0.22, 1.0, 1e4), _point(2, 0.8, 1.0, 1e9))
    more = (_point(8, 0.4, 1.0, 1e12), _point(32, 0.08, 1.0, 1e12))
    reach = staticmethod(lambda point: lab.reach(point))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        return {"lead": lab.passage(point, seed, plant)}

    defects = {
        "off-by-one version": lambda: (lab.off_by_one_version, _point(2, 0.8, 1.0, 1e9)),
        "momentum inserted": lambda: (lab.momentum_inserted, _point(2, 0.8, 1.0, 1e9)),
    }
