r"""Cosine of two unrelated gradients: its size, and how often it exceeds a threshold, by noise alone.

cosines of unrelated gradients have a Beta distribution: in `d` coordinates, noise alone gives a size of `1/sqrt(d)`

(1 + c)/2 ~ Beta((d-1)/2, (d-1)/2), so E|c| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), E c^2 = 1/d and P(c > threshold)
is a tail of that law. Derivation: given one direction, the other is uniform on the sphere, whose first coordinate has
density proportional to (1 - c^2)^{(d-3)/2}. Domain: independent, isotropic, no mean; d >= 2, 0 < threshold < 1. Second
route: quadrature over the angle, weight sin^{d-2}.
"""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc, gammaln, ndtr

from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, lab, units_for

_UPDATES = 130
_RARE = 0.02


class NoiseFloor(Claim):
    kind, source = "distribution", "elementary: one coordinate of a uniform direction"
    effect = 0.05

    dimension = Integer(
        2, 100_000, typical=(2, 300), example=5, doc="coordinates of a gradient",
        remedy="in one dimension every cosine is 1 or -1",
    )  # fmt: skip
    threshold = Real(
        0.0, 1.0, open_low=True, typical=(0.01, 0.9), example=0.6, doc="threshold on the cosine",
        remedy="give a cosine above 0 and below 1",
    )  # fmt: skip

    def joint(self) -> None:
        self.require(self.threshold < 1.0, "threshold", "below 1", "no cosine exceeds 1")

    def predict(s) -> dict[str, float]:
        d, threshold = s.dimension, s.threshold
        size = math.exp(gammaln(d / 2.0) - gammaln((d + 1) / 2.0)) / math.sqrt(math.pi)
        half = (d - 1) / 2.0
        exceeds = float(betainc(half, half, (1.0 - threshold) / 2.0))
        return {"mean_size": size, "square": 1.0 / d, "exceeds": exceeds}

    def check(s) -> dict[str, float]:
        d, threshold = s.dimension, s.threshold
        # Beyond twelve standard deviations of the angle nothing is left; a wider range would hide the peak.
        reach = min(math.pi / 2.0, 12.0 / math.sqrt(d))

        def moment(power: int, low: float, high: float) -> float:
            law = quad(lambda t: math.cos(t) ** (d - 2) * math.sin(t) ** power, low, high, epsabs=0.0, epsrel=1e-12)
            return float(law[0])

        total = 2.0 * moment(0, 0.0, reach)
        angle = math.asin(threshold)
        tail = moment(0, angle, min(math.pi / 2.0, angle + reach))
        size, square = (2.0 * moment(power, 0.0, reach) / total for power in (1, 2))
        return {"mean_size": size, "square": square, "exceeds": tail / total}

    wrong = {
        "normal distribution of variance 1/d": lambda s: {
            "mean_size": math.sqrt(2.0 / (math.pi * s.dimension)),
            "exceeds": float(ndtr(-s.threshold * math.sqrt(s.dimension))),
        }
    }

    points = ({"dimension": 4, "threshold": 0.5}, {"dimension": 20, "threshold": 0.3})
    more = ({"dimension": 100, "threshold": 0.2}, {"dimension": 2, "threshold": 0.3})

    def reach(self, point: Point) -> str | None:
        d, threshold = point["dimension"], point["threshold"]
        if d > 256:
            return "dimension at most 256; lower it, longer vectors take longer than a trial"
        most = f"threshold at most {2.0 / math.sqrt(d):.3g} = 2/sqrt(dimension)"
        return f"{most}; lower it, events beyond are too rare" if threshold * math.sqrt(d) > 2.0 else None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        d, threshold = point["dimension"], point["threshold"]
        # Of one replicate's share of exceedances, which is the least precise; neighbors are independent of each other.
        spread = math.sqrt((1.0 - _RARE) / _RARE / (_UPDATES - 1)) * (1.0 if d * threshold**2 > 2.0 else 0.5)
        replicates = units_for(spread, effect, 6)
        trace = lab.quadratics.run_standing(d, 0.0, 1.0, 1, _UPDATES, replicates, seed, plant)
        # The first gradient has none before it.
        cosine = np.asarray(trace["gradient_cosine"][1:]).T
        statistics = {"mean_size": np.abs(cosine), "square": cosine**2, "exceeds": (cosine > threshold).astype(float)}
        return {name: lab.between(values) for name, values in statistics.items()}

    defects = {
        "mean gradient left in": lambda: lab.with_task(lambda task: {"start": task.noise}),
        "batch used twice": lambda: lab.quadratics.batch_used_twice,
    }
