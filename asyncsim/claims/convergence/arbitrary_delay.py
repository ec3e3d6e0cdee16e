r"""Gradient descent with prescribed staleness: its mean sets the noise, its maximum the highest learning rate.

with staleness fixed in advance, a mean squared gradient is `<= 2 Delta/(a T) + a L s^2 + 2 (a L s)^2 * mean staleness`

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + step L noise^2 + 2 (step L)^2 mean noise^2 if step L + 2 (step L)^2
maximum in_flight <= 1. `maximum` and `mean` are those of the delays; `in_flight` is the most gradients that are read
but not yet applied across one update. Derivation: as for a constant delay, with |u + v|^2 <= 2|u|^2 + 2|v|^2 in place
of the exact split. The split fails because noise of the window is no longer fresh for every gradient in it. Each |v|^2
of the past is counted by at most in_flight windows. Evaluated for f = L x^2/2 from x = start. Domain: the step
condition, delays that do not depend on the noise. Second route: the budget of the derivation update by update, for
delays of that mean. Beside it stand the exact second moments of the quadratic under the constant delay nearest to it.
They would be returned if they exceeded the bound. The term of the delays is not attained. Among all periodic delays of
period up to 5 and at most 6, on quadratics, the worst is a constant delay of 1. It reaches 0.593 of the bound, and
would allow a term 81 percent lower. So no test here can show whether that term needs the mean delay or the largest.
"""

import math
from typing import Any

from asyncsim.claims._claim import Claim, Count, Estimate, Integer, Plant, Point, Positive, Real, checks, lab, sim
from asyncsim.claims.convergence._descent import Descent

_FRESH = {"maximum": 0, "mean": 0.0, "in_flight": 0}
_TIGHT = {**_FRESH, "curvature": 1.0, "step": 1.0, "noise": 1.0, "start": 1.0, "updates": 400}
_DELAYED = {**_TIGHT, "maximum": 1, "mean": 1.0, "in_flight": 1, "step": 0.5, "start": 0.0}
"""The largest step that a delay allows: 0.60 of the bound, but 1.19 of what it would be without the delay's noise."""
_CONSTANT = {**_TIGHT, "maximum": 4, "mean": 4.0, "in_flight": 4, "step": 0.16}
_SAWTOOTH = {**_TIGHT, "maximum": 7, "mean": 3.5, "in_flight": 7, "step": 0.09, "updates": 800}


def _schedule(point: Point) -> Any:
    """Schedule with a constant delay, or with delays 0, 1, ..., maximum in turn; None for any other point."""
    if point["mean"] == point["maximum"] == point["in_flight"]:
        return lab.fixed(point["maximum"])
    if 2 * point["mean"] == point["maximum"] == point["in_flight"]:
        return sim.schedules.sawtooth(point["maximum"] + 1)
    return None


class ArbitraryDelay(Descent, Claim):
    kind, source = "bound", "derived; form of arXiv 2206.08307"
    through, effect, loose = "loop", 0.05, frozenset({"noise of the staleness"})

    maximum = Integer(0, typical=(0, 20), example=6, unit="updates", doc="maximum staleness in updates")
    mean = Real(0.0, example=3.5, unit="updates", doc="mean staleness in updates")
    in_flight = Count(0, example=5, unit="gradients", doc="maximum number of gradients read but not yet applied")
    step = Positive(example=0.05, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        checks.real("mean", self.mean, "give the mean staleness in updates", 0.0, float(self.maximum))
        # A gradient as late as the largest delay is itself in flight.
        consistent = (self.maximum == 0) == (self.in_flight == 0)
        self.require(consistent, "in_flight", "0 only without staleness", "count again")
        # Each is in flight across as many updates as it is late, so that at most `in_flight` are late in the mean.
        checks.real("mean", self.mean, "give the mean staleness, or count those in flight again", 0.0, self.in_flight)
        a, product = self.step * self.curvature, 2.0 * self.maximum * self.in_flight
        most = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 * product))
        remedy = f"a learning rate (step) of {most / self.curvature:.6g} is allowed"
        bound = "such that step L + 2 (step L)^2 maximum in_flight <= 1"
        self.require(a + product * a**2 <= 1.0 + 1e-12, "step", bound, remedy)

    def predict(s, delay: float = 2.0, **factors: float) -> dict[str, float]:
        return s.bound(s.mean, delay=delay, **factors)

    def check(s) -> dict[str, float]:
        return s.budget(s.mean, 1.0)

    terms = Descent.terms | {"noise of the staleness": lambda s, factor: s.predict(delay=2.0 * factor)}

    points = (_TIGHT, {**_TIGHT, "start": 50.0, "updates": 4}, _DELAYED, _CONSTANT, _SAWTOOTH)
    more = ({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000},)

    def reach(self, point: Point) -> str | None:
        other = f"mean = {point['mean']}: must be maximum or half of it, in_flight = maximum; choose either"
        return other if _schedule(point) is None else None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        return lab.quadratics.mean_square(point, _schedule(point), 5, effect, seed, plant)

    defects = {"off-by-one version": lambda: (lab.off_by_one_version, _DELAYED)}
