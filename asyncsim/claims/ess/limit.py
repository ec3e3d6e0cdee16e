r"""The ESS per sample of a batch tends to 1 / (1 + chi^2) as the batch grows.

in a large batch, the effective sample size per sample is `1/(1 + chi^2)`

(sum w)^2 / (N sum w^2) -> (E w)^2 / E w^2 = 1 / (1 + chi^2), chi^2 = sum (pi - mu)^2 / mu. For T independent equal
tokens (`horizon`) it is (1 + chi^2)^-T: it falls exponentially with the length of a sequence, at the rate ln(1 + chi^2)
per token, for small shifts near Var_mu ln w. Derivation: law of large numbers for both sums, E_mu w = 1. Domain:
softmax policies over one set of actions, N -> infinity (a batch reads high by O(1/N)), at most 20,000 count vectors.
Second route: the ratio exp(2 lse(l) - lse(2 l)) of the log weights, each vector of counts of the actions with its
multinomial probability. Source: Kong 1992; arXiv 1511.01437 for the product.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import log_softmax, logsumexp

from asyncsim.claims._bandit import PolicyPair, counted
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, lab, sim, units_for

_SAMPLES, _BATCHES, _MOST = 4096, 4, 4_000_000
_FAR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (2.0, -0.9, 0.1)}
_LONG = {"behavior_logits": (0.3, -0.2), "current_logits": (0.7, -0.4), "horizon": 8}


def _moment(point: Point) -> Callable[[float], float]:
    """E W^power as a function of the power, for sample sizes and tolerances."""
    current, behavior = lab.places(point)
    return partial(lab.moment_of, behavior, current, tokens=point.get("horizon") or 1)


class Limit(PolicyPair, Claim):
    kind, source = "expectation", "Kong 1992 (University of Chicago technical report 348)"

    horizon = Integer(
        1, 4096, optional=True, typical=(1, 8), unit="tokens", doc="length of a sequence of equal tokens (default: 1)"
    )

    def joint(self) -> None:
        self.tokens = self.horizon or 1
        self.list_counts("horizon", self.tokens)

    def predict(s) -> dict[str, float]:
        return {"ess": (1.0 / (1.0 + s.chi_square)) ** s.tokens}

    def check(s) -> dict[str, float]:
        log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
        counts, log_mass = counted(s.tokens, log_mu)
        log_w, mass = counts @ (log_pi - log_mu), np.exp(log_mass)
        return {"ess": float(np.exp(2.0 * logsumexp(log_w, b=mass) - logsumexp(2.0 * log_w, b=mass)))}

    def by_variance(s) -> dict[str, float]:
        """ESS predicted for small shifts of the policy, from the variance of a token's log ratio."""
        change = s.current_logits - s.behavior_logits
        return {"ess": math.exp(-s.tokens * float(s.mu @ (change - s.mu @ change) ** 2))}

    wrong = {
        "first order, 1 - chi^2": lambda s: {"ess": 1.0 - s.tokens * s.chi_square},
        "variance in place of ln(1 + chi^2)": by_variance,
    }

    points = ({"behavior_logits": (0.0, 0.0, 0.0), "current_logits": (0.5, 0.0, -0.5)}, _FAR, _LONG)

    reach = staticmethod(lambda point: lab.moments_beyond(_moment(point), _SAMPLES, _MOST))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        places, tokens, moment = lab.places(point)[::-1], point.get("horizon") or 1, _moment(point)
        units = units_for(1.2 * lab.spread_of_ess(moment) / math.sqrt(_SAMPLES * _BATCHES), effect, 2)
        replicates = max(48, min(units, _MOST // (_SAMPLES * _BATCHES)))
        arms = len(places[0])
        task = sim.tasks.softmax_bandit(arms) if tokens == 1 else sim.tasks.token_bandit(arms, tokens)
        spec = lab.displaced(task, places, ["ess"], (_SAMPLES, _BATCHES, replicates))
        ess = lab.mean_of(lab.run(spec, seed, plant), "ess")
        return {"ess": ess._replace(tolerance=2.0 * lab.bias_of_ess(moment, _SAMPLES) * ess.value)}

    defects = {
        "clamped weights": lambda: (lab.weights.with_ess(lab.weights.clamped), _FAR),
        "effective size of tokens": lambda: (lab.weights.with_ess(sim.diagnostics.ess_token.measure), _LONG),
    }
