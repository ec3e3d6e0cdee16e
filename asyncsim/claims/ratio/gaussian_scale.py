r"""A normal sampler narrower than the policy has ratios with a power-law tail of index 1/(1 - rho), rho = s_b^2/s^2.

a normal sampler of variance `rho < 1` has `P(w > y) = P(chi^2_D > 2 ln(y/rho^(D/2))/(1 - rho))`, a power-law tail

In D dimensions log w = (D/2) ln rho + (1 - rho) X/2 with X ~ chi^2_D under behavior, so P(w > y) = P(X > 2 u), u = ln(y
/ rho^{D/2})/(1 - rho) ("above[k]", at level k), which for D = 1 is erfc sqrt(u). A sampler at a temperature below 1 is
one: rho is its temperature. The p-th moment (rho^p / (1 - p (1 - rho)))^{D/2} is finite for p < 1/(1 - rho) alone;
"affinity" is that of p = 1/2, "mean_log" the mean of log w. Derivation: the ratio of both densities. The local index
differs from its limit by (D/2 - 1)/ln y, so estimates of it read low or high for D other than 2. In the plane X/2 is
exponential and w exactly Pareto, P(w > y) = (rho/y)^{1/(1 - rho)} for y >= rho, as for exponential policies whose rates
have the ratio rho: the case on which estimators of tails are calibrated. Domain: equal means, 0 < rho < 1, levels above
the least ratio rho^{D/2}. Second route: quadrature over the distance from the mean of both densities.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincc
from scipy.stats import chi

from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, Vector, indexed, lab
from asyncsim.claims._lengths import panels

_SPACE = {"temperature": 0.4, "dimension": 3, "levels": (0.5, 0.9)}


class GaussianScale(Claim):
    kind, source = "distribution", "derived"

    temperature = Real(0.02, 0.98, typical=(0.05, 0.9), example=0.6, doc="rho, sampler / policy variance")
    dimension = Integer(1, 64, typical=(1, 6), example=3, doc="coordinates of an action")
    levels = Vector(
        0.0, sizes=(2, 2), typical=(0.3, 3.0), example=(0.8, 2.0), doc="ratios above which probabilities are asked for"
    )

    def joint(self) -> None:
        least, above = self.temperature ** (self.dimension / 2.0), self._above()
        bound = f"above the least ratio {least:.4g}, with a probability of 1e-12 or more"
        self.require((above < 1.0).all() and (above > 1e-12).all(), "levels", bound, "move them")

    def _above(s, index: float | None = None) -> np.ndarray:
        u = np.log(s.levels / s.temperature ** (s.dimension / 2.0)) * (
            1.0 / (1.0 - s.temperature) if index is None else index
        )
        return gammaincc(s.dimension / 2.0, np.maximum(u, 0.0))

    def predict(s) -> dict[str, float]:
        rho, D = s.temperature, s.dimension
        affinity = (math.sqrt(rho) / (0.5 + 0.5 * rho)) ** (D / 2.0)
        mean = D / 2.0 * (math.log(rho) + 1.0 - rho)
        return {"affinity": affinity, "mean_log": mean} | indexed("above", s._above())

    def check(s) -> dict[str, float]:
        D, spread = s.dimension, math.sqrt(s.temperature)
        # Distances from the mean.
        behavior, policy = chi(D, scale=spread), chi(D)

        def log_ratio(radius: np.ndarray) -> np.ndarray:
            return policy.logpdf(radius) - behavior.logpdf(radius)

        def integral(function: Callable[[np.ndarray], np.ndarray], low: float = 0.0) -> float:
            high = max(low, spread * math.sqrt(D)) + 20.0 * spread
            radius, weight = panels(np.linspace(low, high, 129))
            return float(weight @ (behavior.pdf(radius) * function(radius)))

        mean = integral(log_ratio)
        # The log ratio is linear in the squared distance: two places give it.
        near, far = log_ratio(np.array([0.5, 1.0]))
        slope = (far - near) / 0.75
        above = [integral(np.ones_like, math.sqrt(1.0 + (math.log(y) - far) / slope)) for y in s.levels]
        affinity = integral(lambda r: np.exp(0.5 * log_ratio(r)))
        return {"affinity": affinity, "mean_log": mean} | indexed("above", above)

    wrong = {
        "index from standard deviations": lambda s: indexed("above", s._above(1.0 / (1.0 - math.sqrt(s.temperature))))
    }

    points = ({"temperature": 0.2, "dimension": 1, "levels": (0.6, 0.8)}, _SPACE)
    more = (
        {"temperature": 0.3, "dimension": 5, "levels": (0.3, 0.5)},
        {"temperature": 0.45, "dimension": 2, "levels": (0.5, 0.9)},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        return lab.weights.measured(point, point["dimension"], len(self.points), effect, seed, plant)

    defects = {"sampler 5 percent colder than it says": lambda: (lab.weights.colder(0.95), _SPACE)}
