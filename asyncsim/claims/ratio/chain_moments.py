r"""Moments of the ratio of a chain of bits are products over bits, and they determine the ESS of large batches.

`E W^p` of a chain of bits is a product over bits, and a large batch has `ESS/N = 1/E W^2`

E_mu W^p = prod_t sum_a pi_t(a)^p mu_t(a)^{1-p}; a large batch has ESS/N = 1/E W^2. Derivation: bits are independent.
Domain: at most 4096 bits whose margins go evenly along the chain, E W^2 below 1e12. Second route: the chi-square of
every bit, (pi - mu)^2 / (mu (1 - mu)), and the Hellinger affinity of every bit, as products. Source: arXiv 1511.01437
for the product; Kong 1992 for the effective sample size.
"""

import math

import numpy as np

from asyncsim.claims._chain import Chains, log_moment, probabilities
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab

_SHORT = {"horizon": 24, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}


class ChainMoments(Chains, Claim):
    kind, source = "expectation", "arXiv 1511.01437; Kong 1992 (University of Chicago technical report 348)"

    def joint(self) -> None:
        """Refuse policies so far apart that no batch shows the moments of their ratio."""
        second = log_moment(self.pair, 2.0)
        bound = f"such that E W^2 = exp({second:.3g}) is below 1e12"
        self.require(second < math.log(1e12), "current_margins", bound, "move them closer")

    def _quantities(s, log_second: float, half: float) -> dict[str, float]:
        second = math.exp(log_second)
        return {"ess": 1.0 / second, "second_moment": second, "affinity": half}

    def predict(s, tilt: float = 0.0) -> dict[str, float]:
        return s._quantities(log_moment(s.pair, 2.0 + tilt), math.exp(log_moment(s.pair, 0.5 + tilt)))

    def check(s) -> dict[str, float]:
        mu, pi = map(probabilities, s.pair)
        affinity = np.sqrt(pi * mu) + np.sqrt((1.0 - pi) * (1.0 - mu))
        return s._quantities(float(np.log1p((pi - mu) ** 2 / (mu * (1.0 - mu))).sum()), float(affinity.prod()))

    wrong = {"moments taken under the current policy": lambda s: s.predict(1.0)}

    points = (_SHORT, {"horizon": 64, "behavior_margins": (-0.5, 0.5), "current_margins": (-0.3, 0.4)})
    more = ({"horizon": 200, "behavior_margins": (1.0, 0.0), "current_margins": (1.1, 0.05)},)

    reach = staticmethod(lambda point: lab.moments_beyond(lab.Chain(point).moment))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        chain = lab.Chain(point)
        replicates = lab.replicates_for(lab.spread_of_square(chain.moment), effect, 12)
        return lab.moments(chain.run(lab.MOMENTS, replicates, seed, plant), chain.moment)

    defects = {
        "last token left out": lambda: (lab.with_policy(lab.ShortProduct), {**_SHORT, "current_margins": (0.6, 2.4)}),
        "one number for all bits": lambda: lab.with_policy(lab.OneNumber),
    }
