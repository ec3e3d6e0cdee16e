r"""A learning rate that is scaled at random, without looking at the gradient, acts by its mean and its mean square.

learning rates scaled by `m + w u`, `u` uniform in `[-1, 1]`, leave `E x_t = (1 - a m)^t` and `E x_t^2 = ((1 - a m)^2 +
a^2 w^2 / 3)^t`

x_{t+1} = (1 - a (mean + spread u_t)) x_t, a = step * curvature, u_t uniform in [-1, 1) and independent of all else. So
E x_t = (1 - a mean)^t and E x_t^2 = ((1 - a mean)^2 + a^2 spread^2 / 3)^t for x_0 = 1: a mean factor of the steps, and
a noise that grows with their size. It is the control of an adaptive rule: the same two moments, no tie to the batch.
Derivation: products of independent factors. Domain: fresh linear gradients without noise. Second route: the moments as
sums over binomial powers of u, E u^k = 1/(k + 1) for even k.
"""

import math
from math import comb

import numpy as np

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, Real, indexed, lab, sim, units_for

_POINT = {"mean": 0.7, "spread": 0.2, "step": 0.3, "curvature": 1.0, "updates": 4}


class RandomScale(Claim):
    kind, source = "expectation", "derived: products of independent factors"

    mean = Positive(typical=(0.3, 1.0), example=0.7, doc="mean scale")
    spread = Real(0.0, typical=(0.05, 0.3), example=0.6, doc="half the width of the scales")
    step = Positive(typical=(0.05, 0.5), example=0.6, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.5, 1.5), example=1.0, doc="curvature of the loss")
    updates = Count(1, 64, typical=(1, 8), example=6, unit="updates", doc="length of the run")

    def joint(self) -> None:
        self.require(self.spread <= self.mean, "spread", f"at most mean = {self.mean}", "a scale may not be negative")
        self.share = self.step * self.curvature
        inside = 1e-3 < 1.0 - self.share * (self.mean + self.spread) < 1.0
        self.require(inside, "step", "such that every factor is in (0.001, 1)", "lower it")

    def _moments(s, factor: float, square: float) -> dict[str, float]:
        times = np.arange(1, s.updates + 1)
        return indexed("x", factor**times) | indexed("square", square**times)

    def predict(s) -> dict[str, float]:
        factor = 1.0 - s.share * s.mean
        return s._moments(factor, factor**2 + (s.share * s.spread) ** 2 / 3.0)

    def check(s) -> dict[str, float]:
        """E (c + d u)^(p t) as the t-th power of E (c + d u)^p, expanded in powers of u."""
        c, d = 1.0 - s.share * s.mean, -s.share * s.spread
        first, second = (sum(comb(p, k) * c ** (p - k) * d**k / (k + 1) for k in range(0, p + 1, 2)) for p in (1, 2))
        return s._moments(first, second)

    wrong = {"no spread": lambda s: s.but(spread=0.0).predict()}

    points = (_POINT, {**_POINT, "spread": 0.6})
    more = ({**_POINT, "mean": 0.4, "updates": 8},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        count, a = point["updates"], point["step"] * point["curvature"]
        # Relative standard deviation of the last square, rounded up: twice that of a product of factors.
        spread = 2.5 * math.sqrt(count / 3.0) * (a * point["spread"] / (1.0 - a * point["mean"])) + 0.01
        spec = lab.descent(
            sim.tasks.quadratic((point["curvature"],), noise=0.0, start=1.0),
            lab.fixed(0),
            sim.updates.sgd(point["step"]),
            sim.updates.random_scale(point["mean"], point["spread"], seed=seed),
            updates=count,
            sampling="enumerate",
            replicates=max(64, units_for(spread, effect, 2 * count)),
            diagnostics=[lab.PLACE],
        )
        trace = lab.run(spec, seed, plant)
        places = [*trace["place"][1:], trace.parameters[:, 0]]
        squares = {f"square[{k}]": lab.between(np.asarray(x) ** 2) for k, x in enumerate(places)}
        return {f"x[{k}]": lab.between(np.asarray(x)) for k, x in enumerate(places)} | squares

    defects = {"unscaled": lambda: lab.quadratics.changed(type(sim.updates.random_scale()), mean=1.0)}
