r"""The mean ratio of a batch is 1 at any staleness, with standard deviation sqrt((1/rho - 1)/N), where rho = ESS/N.

the mean ratio of a batch is `E w = 1` at any staleness, with sd `sqrt((1/rho - 1)/N)`, `rho` the ESS per sample

E_mu W = sum_y mu(y) pi(y)/mu(y) = 1 and Var W = E_mu W^2 - 1 = (sum_a pi_a^2/mu_a)^T - 1 = 1/rho - 1, rho the
population ESS per sample. Domain: sequences of T independent tokens of one softmax, N independent samples, at most
20,000 count vectors. Second route: every count vector with its multinomial probability.
"""

import math

import numpy as np
from scipy.special import log_softmax

from asyncsim.claims._bandit import PolicyPair, counted, softmax
from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, lab, sim, too_rare, units_for

_BATCHES = 64
_MOST, _TOKENS = 1 << 13, 50_000_000
"""Tokens of a batch, and of all, at most."""
_SHORT = {"samples": 32, "horizon": 1, "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.2, -0.7, 0.1)}
_LONG = {"samples": 48, "horizon": 3, "behavior_logits": (0.2, 0.0, -0.3), "current_logits": (0.6, -0.2, -0.4)}


def _spread(point: Point) -> float:
    """Standard deviation of one batch's squared deviation divided by twice its mean, 1.5 times that of normal means.

    The fourth moment of weights, which rare large ones decide, falls off with the number of samples.
    """
    logits = point["behavior_logits"], point["current_logits"]
    second, third, fourth = (lab.moment_of(*logits, power, point["horizon"]) for power in (2.0, 3.0, 4.0))
    excess = (fourth - 4.0 * third + 6.0 * second - 3.0) / max(second - 1.0, 1e-12) ** 2 - 3.0
    return max(0.9, 0.6 * math.sqrt(max(2.0 + excess / point["samples"], 0.0)))


class MeanWeight(PolicyPair, Claim):
    kind, source, through = "expectation", "elementary", "loop"

    samples = Count(2, typical=(2, 256), example=16, doc="samples of a batch")
    horizon = Count(1, typical=(1, 6), example=2, unit="tokens", doc="tokens of a sequence")

    def joint(self) -> None:
        self.list_counts("horizon", self.horizon)
        apart = (np.abs(np.diff(self.behavior_logits - self.current_logits)) > 1e-3).any()
        reason = "between equal policies every ratio is 1"
        self.require(apart, "current_logits", "another policy than behavior's", reason)

    def predict(s) -> dict[str, float]:
        mu, pi = (softmax(logits) for logits in s.logits)
        second = float((pi**2 / mu).sum()) ** s.horizon
        return {"mean_weight": 1.0, "sd": math.sqrt((second - 1.0) / s.samples)}

    def check(s) -> dict[str, float]:
        log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
        counts, log_mass = counted(s.horizon, log_mu)
        mass, weight = np.exp(log_mass), np.exp(counts @ (log_pi - log_mu))
        # Moments about 1: no two large numbers are subtracted.
        variance = math.fsum(mass * (weight - 1.0) ** 2)
        return {"mean_weight": math.fsum(mass * weight), "sd": math.sqrt(variance / s.samples)}

    wrong = {"sd sqrt(1/(rho N))": lambda s: {"sd": math.hypot(s.predict()["sd"], 1.0 / math.sqrt(s.samples))}}

    points = (_SHORT, _LONG)
    more = ({**_LONG, "samples": 128},)

    def reach(self, point: Point) -> str | None:
        tokens = point["samples"] * point["horizon"]
        if tokens > _MOST:
            return f"a batch of at most {_MOST} tokens, not {tokens}; take fewer samples or a shorter horizon"
        return too_rare(_spread(point), _TOKENS // tokens)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        most = _TOKENS // (point["samples"] * point["horizon"])
        batches = min(units_for(_spread(point), effect, 2 * len(self.points)), most)
        replicates = max(16, batches // _BATCHES)
        places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
        task = sim.tasks.token_bandit(len(places[0]), point["horizon"])
        size = point["samples"], _BATCHES, replicates
        weight = lab.run(lab.displaced(task, places, ["mean_weight"], size), seed, plant)["mean_weight"][1:]
        variance = lab.between(((weight - weight.mean()) ** 2).mean(axis=0))
        sd = float(np.sqrt(variance.value))
        spread = variance._replace(value=sd, error=variance.error / (2.0 * sd))
        return {"mean_weight": lab.between(weight.mean(axis=0)), "sd": spread}

    defects = {"scored at another temperature": lambda: (lab.with_policy(lab.Tempered), _LONG)}
