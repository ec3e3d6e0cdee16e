r"""Gradient descent at constant staleness: a bound on the mean squared gradient, with explicit constants.

at staleness `tau`, the mean squared gradient of descent is `<= 2 Delta/(a T) + a L s^2 + (a L)^2 tau s^2`

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + step L noise^2 + (step L)^2 tau noise^2 if step L + (step L tau)^2 <=
1. Derivation: smoothness, with 2<u,v> = |u|^2 + |v|^2 - |u-v|^2 for u = grad f(x_t), v = grad f(x_{t-tau}). The window
x_t - x_{t-tau} splits into gradients fixed before it and fresh noise. So E|x_t - x_{t-tau}|^2 <= step^2 (tau sum |v|^2
+ tau noise^2); absorb the |v|^2. Evaluated for f = L x^2/2 from x = start, Delta = L start^2/2. Domain: the step
condition above, noise of variance at most noise^2. Second route: the budget of the derivation summed update by update.
The exact second moments of the quadratic would be returned instead if they exceeded it. Attained at staleness 0 with
learning rate 1/L, and at staleness 1 with the largest one. Beyond, |sum of tau v|^2 < tau sum |v|^2. A search over
quadratics, learning rates, starts and lengths reached 0.944 of the bound at staleness 2, 0.86 at 16.
"""

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Staleness, lab
from asyncsim.claims.convergence._descent import Descent

_TIGHT = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 1.0, "updates": 400}
_FROM_AFAR = {**_TIGHT, "start": 50.0, "updates": 4}
"""Here the initial gap decides."""
_ONE_LATE = {**_TIGHT, "staleness": 1, "step": (5.0**0.5 - 1.0) / 2.0, "start": 0.0, "updates": 1000}
"""At the largest step, with a + a^2 = 1: attained, and the delay carries 0.38 of the bound."""
_TWO_LATE = {**_TIGHT, "staleness": 2, "step": 0.39, "start": 0.0, "updates": 1000}
_LATE = {**_TIGHT, "staleness": 16, "step": 0.0605, "start": 0.0, "updates": 2000}


class ConstantDelay(Descent, Claim):
    kind, source = "bound", "derived; compare arXiv 1909.05350"
    through, effect, loose = "loop", 0.05, frozenset({"noise of staleness above 1"})

    staleness = Staleness(typical=(0, 12), example=4)

    def joint(self) -> None:
        a = self.step * self.curvature
        # At the largest allowed step, 1/L, the product may round to just above 1.
        small, bound = a + (a * self.staleness) ** 2 <= 1.0 + 1e-12, "such that step L + (step L staleness)^2 <= 1"
        remedy = f"a learning rate (step) of {1.0 / (self.curvature * (1 + self.staleness)):.6g} is allowed"
        self.require(small, "step", bound, remedy)

    def predict(s, **factors: float) -> dict[str, float]:
        return s.bound(s.staleness, **factors)

    def check(s) -> dict[str, float]:
        return s.budget(s.staleness, 0.5)

    terms = Descent.terms | {
        "noise of staleness 1": lambda s, factor: s.predict(delay=factor if s.staleness == 1 else 1.0),
        "noise of staleness above 1": lambda s, factor: s.predict(delay=factor if s.staleness > 1 else 1.0),
    }

    points = (_TIGHT, _FROM_AFAR, _ONE_LATE, _TWO_LATE, _LATE)
    more = ({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000}, {**_TIGHT, "staleness": 4, "step": 0.2})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        return lab.quadratics.mean_square(point, lab.fixed(point["staleness"]), 5, effect, seed, plant)

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "off-by-one version at constant staleness": lambda: (lab.off_by_one_version, _ONE_LATE),
    }
