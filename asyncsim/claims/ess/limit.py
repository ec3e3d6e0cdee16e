r"""The ESS per sample of a batch tends to 1 / (1 + chi^2) as the batch grows.

the effective sample size per sample of a large batch is `1/(1 + chi^2)`

(sum w)^2 / (N sum w^2) -> (E w)^2 / E w^2 = 1 / (1 + chi^2), chi^2 = sum (pi - mu)^2 / mu. Derivation: law of large
numbers for both sums, E_mu w = 1. Domain: softmax policies over one set of actions, N -> infinity (a batch reads high
by O(1/N)). Second route: the ratio exp(2 lse(l) - lse(2 l)) of the log weights, each action counted with its behavior
probability.
"""

import math
from functools import partial

import numpy as np
from scipy.special import log_softmax, logsumexp

from asyncsim.claims._bandit import PolicyPair
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, sim, units_for

_SAMPLES, _BATCHES, _MOST = 4096, 4, 4_000_000
_FAR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (2.0, -0.9, 0.1)}


class Limit(PolicyPair, Claim):
    kind, source = "expectation", "Kong 1992 (University of Chicago technical report 348)"

    def predict(s) -> dict[str, float]:
        return {"ess": 1.0 / (1.0 + s.chi_square)}

    def check(s) -> dict[str, float]:
        log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
        log_w, counts = log_pi - log_mu, np.exp(log_mu)
        return {"ess": float(np.exp(2.0 * logsumexp(log_w, b=counts) - logsumexp(2.0 * log_w, b=counts)))}

    wrong = {"first order, 1 - chi^2": lambda s: {"ess": 1.0 - s.chi_square}}

    points = ({"behavior_logits": (0.0, 0.0, 0.0), "current_logits": (0.5, 0.0, -0.5)}, _FAR)

    reach = staticmethod(lambda p: lab.moments_beyond(partial(lab.moment_of, *lab.places(p)[::-1]), _SAMPLES, _MOST))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        places = lab.places(point)[::-1]
        moment = partial(lab.moment_of, *places)
        units = units_for(1.2 * lab.spread_of_ess(moment) / math.sqrt(_SAMPLES * _BATCHES), effect, 2)
        replicates = max(48, min(units, _MOST // (_SAMPLES * _BATCHES)))
        task = sim.tasks.softmax_bandit(len(places[0]))
        spec = lab.displaced(task, places, ["ess"], (_SAMPLES, _BATCHES, replicates))
        ess = lab.mean_of(lab.run(spec, seed, plant), "ess")
        return {"ess": ess._replace(tolerance=2.0 * lab.bias_of_ess(moment, _SAMPLES) * ess.value)}

    defects = {"clamped weights": lambda: (lab.weights.with_ess(lab.weights.clamped), _FAR)}
