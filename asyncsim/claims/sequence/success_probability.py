r"""The success probability of a chain of independent bits is an upper tail of a Poisson binomial distribution.

the success probability of a chain of bits is the Poisson binomial tail of its right bits, on stale data after weighting

J = P(K >= k), K the number of right bits, k = ceil(f H). Under stale data from mu the mean reward is J(mu); weighted by
the sequence ratio it is J(pi). Derivation: bits are independent, E_mu W r = E_pi r. Domain: at most 4096 bits, margins
that go evenly along the chain. Second route: the generating function at the roots of unity.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from asyncsim.claims._chain import PaidChains, bits, count_law, fourier_law, probabilities
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, too_rare

_SHORT = {"horizon": 24, "fraction": 0.75, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}


def _spread(chain: lab.Chain) -> float:
    """Upper bound on one sample's relative standard deviation: E W^2 r <= E W^2 for r in {0, 1}."""
    stale, current = (chain.exact(place)[0] for place in (chain.behavior, chain.current))
    if min(stale, current) <= 0.0:
        return math.inf
    return math.sqrt(max(1.0 / stale - 1.0, chain.moment(2.0) / current**2 - 1.0, 1e-6))


class SuccessProbability(PaidChains, Claim):
    kind, source = "expectation", "textbook (Poisson binomial)"

    horizon = bits(60)

    def _tails(s, law: Callable[[np.ndarray], np.ndarray], extra: int = 0) -> dict[str, float]:
        behavior, current = (float(law(probabilities(m))[s.needed + extra :].sum()) for m in s.pair)
        return {"stale_return": behavior, "weighted_return": current}

    def predict(s) -> dict[str, float]:
        return s._tails(count_law)

    def check(s) -> dict[str, float]:
        return s._tails(fourier_law)

    wrong = {"more than the needed bits": lambda s: s._tails(count_law, 1)}

    points = (_SHORT, {"horizon": 48, "fraction": 0.7, "behavior_margins": (1.2, 0.4), "current_margins": (1.1, 0.7)})
    more = ({"horizon": 200, "fraction": 0.6, "behavior_margins": (0.2, 0.7), "current_margins": (0.25, 0.75)},)

    reach = staticmethod(lambda point: too_rare(_spread(lab.Chain(point, point["fraction"])), lab.MOST))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        chain = lab.Chain(point, point["fraction"])

        def weighted(step: lab.Step) -> lab.Tensor:
            return step.mean(lab.torch.exp(step.sequence_log_ratio) * step.batch.reward)

        metrics = ["batch_return", lab.Metric("weighted", weighted, ("log_prob",))]
        trace = chain.run(metrics, lab.replicates_for(_spread(chain), effect, 6), seed, plant)
        return {
            "stale_return": lab.share_of(trace["batch_return"][1:], lab.SAMPLES),
            "weighted_return": lab.mean_of(trace, "weighted"),
        }

    defects = {
        "more than the needed bits": lambda: lab.with_task(lambda t: {"fraction": (t.needed + 1) / t.horizon}),
        "one number for all bits": lambda: lab.with_policy(lab.OneNumber),
    }
