r"""Hill's estimate from the m largest Pareto weights is Gamma distributed, with a relative error of 1/sqrt(m).

Hill's estimate of a Pareto shape `k` from the `m` largest weights is `Gamma(m, k/m)`, so it is off by `k/sqrt(m)`

With tail shape k (index 1/k) and the (m+1)-th largest as threshold, the estimate of k has the law Gamma(m, k/m): mean k
("shape"), mean square k^2 (1 + 1/m) ("square"), and P(estimate <= k (1 + z/sqrt(m))) from the incomplete Gamma function
("below[i]", z the i-th score). Its reciprocal, the estimated index, has mean (1/k) m/(m - 1) ("index"). Here m =
ceil(min(N/5, 3 sqrt(N))) of N samples. At N = 512 m is 68, and k = 0.5 is read to 12 percent: one batch cannot tell 0.5
from 0.6. Derivation: spacings of exponential order statistics are independent (Renyi). Domain: exact Pareto weights, as
in the plane of `ratio/gaussian-scale`, k one minus the temperature; N >= 25, so that the index has a fourth moment.
Second route: moments and law of a sum of m exponentials by quadrature of their Laplace transform's inverse, a power of
x. Source: Hill 1975; arXiv 1507.02646 for m. PSIS fits a generalized Pareto law to the same weights (metric
`pareto_k`). That estimate has no known law at finite m: its standard deviation nears (1 + k)/sqrt(m), and is off by up
to 5 percent at N = 256. So it is tested beside its formula, and no part of this claim.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammainc
from scipy.stats import gamma

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Real, Vector, indexed, lab, too_rare, units_for
from asyncsim.claims._lengths import panels

_BATCHES, _MOST = 32, 16_000_000


def _largest(samples: float) -> int:
    return math.ceil(min(samples / 5, 3 * math.sqrt(samples)))


def _spread(point: Point) -> float:
    """Largest relative standard deviation of one batch among the mean square, the index and the cells."""
    m = _largest(point["samples"])
    square = math.sqrt((m + 2.0) * (m + 3.0) / (m * (m + 1.0)) - 1.0)
    rarest = min(0.5 * math.erfc(-z / math.sqrt(2.0)) for z in point["scores"])
    return max(square, 1.0 / math.sqrt(m - 2.0), 1.05 * math.sqrt(1.0 / max(rarest, 1e-300) - 1.0))


class HillAndPsis(Claim):
    kind, source = "distribution", "Hill 1975; arXiv 1507.02646 for m"

    temperature = Real(0.02, 0.98, typical=(0.05, 0.95), example=0.5, doc="1 - k, k the shape of the tail")
    samples = Count(25, 1 << 20, typical=(25, 2000), example=40, doc="samples of a batch")
    scores = Vector(-3.0, typical=(-1.0, 2.0), sizes=(2, 2), example=(0.0, 1.0), doc="standardized estimates to test")

    def joint(self) -> None:
        # m, how many of the samples are used.
        self.largest = math.ceil(min(self.samples / 5.0, 3.0 * math.sqrt(self.samples)))
        least = 1.0 + self.scores.min() / math.sqrt(self.largest)
        self.require(least > 0.0, "scores", "above -sqrt(m)", "raise the least")

    def _law(s, m: int, scale: float) -> dict[str, float]:
        """Quantities of an estimate with distribution Gamma(m, scale)."""
        places = (1.0 - s.temperature) * (1.0 + s.scores / math.sqrt(s.largest))
        moments = {"shape": m * scale, "square": m * (m + 1.0) * scale**2, "index": 1.0 / ((m - 1.0) * scale)}
        return moments | indexed("below", gammainc(m, places / scale))

    def predict(s) -> dict[str, float]:
        return s._law(s.largest, (1.0 - s.temperature) / s.largest)

    def check(s) -> dict[str, float]:
        k, m = 1.0 - s.temperature, s.largest
        root, total = math.sqrt(m), gamma(m)

        def integral(
            function: Callable[[np.ndarray], np.ndarray], high: float = m + 14.0 * math.sqrt(m) + 60.0
        ) -> float:
            """Expectation over the sum of m standard exponential variables."""
            x, weight = panels(np.linspace(min(max(1e-12, m - 14.0 * root - 6.0), high), high, 129))
            return float(weight @ (total.pdf(x) * function(x)))

        shape, square = integral(lambda x: k * x / m), integral(lambda x: (k * x / m) ** 2)
        index = integral(lambda x: m / (k * x))
        below = [integral(np.ones_like, m * (1.0 + z / root)) for z in s.scores]
        return {"shape": shape, "square": square, "index": index} | indexed("below", below)

    wrong = {"threshold counted among the largest": lambda s: s._law(s.largest, (1 - s.temperature) / (s.largest + 1))}

    points = ({"temperature": 0.5, "samples": 40, "scores": (1.0,)},)
    more = ({"temperature": 0.3, "samples": 256, "scores": (1.5,)},)

    reach = staticmethod(lambda point: too_rare(_spread(point), _MOST // point["samples"]))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        k, root = 1.0 - point["temperature"], math.sqrt(_largest(point["samples"]))
        most = _MOST // point["samples"] // _BATCHES
        replicates = min(units_for(_spread(point) / math.sqrt(_BATCHES), effect, 8), most)
        size = point["samples"], _BATCHES, max(16, replicates)
        trace = lab.run(lab.weights.cooled(point["temperature"], 2, ["tail_index"], size), seed, plant)
        index = trace["tail_index"][1:]
        shape = 1.0 / index
        cells = {f"below[{i}]": lab.share_of(shape <= k * (1.0 + z / root)) for i, z in enumerate(point["scores"])}
        numbers = {"shape": shape, "square": shape**2, "index": index}
        return {name: lab.between(x.mean(axis=0)) for name, x in numbers.items()} | cells

    defects = {"sampler 5 percent colder than it says": lambda: lab.weights.colder(0.95)}
