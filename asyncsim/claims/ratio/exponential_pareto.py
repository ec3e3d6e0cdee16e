r"""Ratios of two exponential policies are exactly Pareto, with minimum k and index 1/(1 - k), k < 1.

`P(w > y) = (k/y)^(1/(1 - k))` for `y >= k`: ratios of exponential policies of rate ratio `k < 1`

P(w > y) = (k/y)^{1/(1 - k)} for y >= k, the rate of the target over that of the sampler ("above[i]", at level i). The
half squared distance of a normal action in the plane from its mean is exponential, so a sampler at temperature k there
is the case at hand. log w = ln k + (1 - k) X with X standard exponential: mean ln k + 1 - k ("mean_log"), standard
deviation 1 - k. E w^p is finite for p < 1/(1 - k): E w^2 = k^2/(2 k - 1) for k > 1/2 alone, and no moment beyond is
asked for; "affinity" is E w^{1/2}. It is the case on which estimators of tails are calibrated. Derivation: the ratio of
both densities is an exponential of x. Domain: 0 < k < 1, levels above k. Second route: quadrature over x of both
densities.
"""

import math
from collections.abc import Callable

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, Vector, indexed, lab
from asyncsim.claims._lengths import panels

_LIGHT = {"temperature": 0.45, "levels": (0.5, 0.9)}


class ExponentialPareto(Claim):
    kind, source = "distribution", "derived"

    temperature = Real(0.02, 0.98, typical=(0.05, 0.95), example=0.4, doc="k, rate of the target / rate of the sampler")
    levels = Vector(
        0.0, sizes=(2, 2), typical=(0.3, 3.0), example=(0.6, 1.5), doc="ratios above which probabilities are asked for"
    )

    def joint(self) -> None:
        rare = bool((self._above() > 1e-12).all())
        bound = f"above the least ratio {self.temperature:.4g}, with a probability of 1e-12 or more"
        self.require(rare and bool((self.levels > self.temperature).all()), "levels", bound, "move them")

    def _above(s, index: float | None = None) -> np.ndarray:
        return np.minimum(1.0, s.temperature / s.levels) ** (1.0 / (1.0 - s.temperature) if index is None else index)

    def predict(s) -> dict[str, float]:
        k = s.temperature
        moments = {"affinity": 2.0 * math.sqrt(k) / (1.0 + k), "mean_log": math.log(k) + 1.0 - k}
        return moments | indexed("above", s._above())

    def check(s) -> dict[str, float]:
        k = s.temperature

        def log_ratio(x: np.ndarray) -> np.ndarray:
            """Log ratio of the densities k e^{-k x} and e^{-x}."""
            return math.log(k) - k * x + x

        def integral(function: Callable[[np.ndarray], np.ndarray], low: float = 0.0) -> float:
            x, weight = panels(np.linspace(low, low + 80.0, 65))
            return float(weight @ (np.exp(-x) * function(x)))

        start, further = log_ratio(np.array([0.0, 1.0]))
        above = [integral(np.ones_like, (math.log(y) - start) / (further - start)) for y in s.levels]
        moments = {"affinity": integral(lambda x: np.exp(0.5 * log_ratio(x))), "mean_log": integral(log_ratio)}
        return moments | indexed("above", above)

    wrong = {"index of the reciprocal ratio": lambda s: indexed("above", s._above(index=1.0 / s.temperature))}

    points = ({"temperature": 0.3, "levels": (0.45, 0.8)}, _LIGHT)
    more = ({"temperature": 0.15, "levels": (0.3, 0.5)},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        return lab.weights.measured(point, 2, len(self.points), effect, seed, plant)

    defects = {"sampler 5 percent colder than it says": lambda: (lab.weights.colder(0.95), _LIGHT)}
