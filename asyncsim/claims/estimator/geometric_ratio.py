r"""The geometric mean of a sequence's ratios is not an importance weight: its mean under behavior is not 1.

the geometric mean of token ratios has mean `E_mu W^(1/T) = sum pi^(1/T) mu^(1-1/T)`, near `e^(-KL/T)`, not 1

s = W^(1/T), W the sequence ratio. E_mu s = sum over sequences of pi^(1/T) mu^(1-1/T), for independent equal tokens
(sum_a pi_a^(1/T) mu_a^(1-1/T))^T. It is at most 1 by Jensen's inequality, and at least e^-kl, to which it tends for
long sequences; kl = KL(mu || pi)/T. So a band of acceptance that is centered at 1 rejects everything once kl is beyond
it and T is large, and as a weight s shrinks gradients by about e^-kl without removing any bias. It hides length: with
token log ratios of standard deviation 0.02, mean -0.0002, and T = 9000, s is 0.9998 +- 0.0002 while log W is -1.8 +-
1.9. Given are `loss` = -log E_mu s, `kept`, the share of s in [low, high], and kl. Derivation: sum over sequences, from
the last token backwards. Domain: softmax tokens of full support, policies that differ, no s within 1e-9 of a bound, at
most 2^20 sequences. Second route: enumeration for means, and for the band a recursion on row and sum of log ratios.
"""

import math
from collections import defaultdict

import numpy as np

from asyncsim.claims._bandit import SequencePair, chained, enumerate_sequences, softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, checks, lab, sequence_point, sim

_CLEAR = 1e-9
_BAND = {"low": 0.8, "high": 1.25}
_MARKOV = sequence_point("markov", 5, 4, **_BAND)


class GeometricRatio(SequencePair, Claim):
    kind, source = "expectation", "derived"
    through = "oracle"

    horizon = Integer(2, typical=(2, 5), example=3, unit="tokens", doc="length of a sequence")
    low = Real(0.0, 1.0, typical=(0.5, 0.95), example=0.7, doc="minimum geometric mean kept")
    high = Real(1.0, typical=(1.05, 2.0), example=1.4, doc="maximum geometric mean that is kept")

    def joint(self) -> None:
        self.sequences = enumerate_sequences(self)
        self.mean_log = self.sequences.log_ratio.mean(axis=1)
        self.mean = np.exp(self.mean_log)
        edges = np.array([self.low, self.high])
        clear = bool((np.abs(self.mean[:, None] - edges) > _CLEAR).all())
        checks.require(clear, "low, high", edges.tolist(), f"{_CLEAR:g} away from every geometric mean", "move it")
        some = bool(((self.mean > self.low) & (self.mean < self.high)).any())
        checks.require(some, "low, high", edges.tolist(), "a band that keeps a sequence", "widen it")
        remedy = "without a difference every ratio is 1"
        self.require(float(np.abs(self.mean_log).max()) > 1e-3, "current_logits", "another policy", remedy)

    def predict(s) -> dict[str, float]:
        mu, pi = softmax(s.behavior_logits), softmax(s.current_logits)
        # E_mu W^p; d/dp of its logarithm at p = 0 is E log W.
        root, near = (complex(chained(s, pi**p * mu ** (1.0 - p))) for p in (1.0 / s.horizon, 1e-30j))
        return {
            "loss": -float(np.log(root.real)),
            "kept": float(s.sequences.mass @ ((s.mean >= s.low) & (s.mean <= s.high))),
            "kl": -float(np.imag(np.log(near))) / 1e-30 / s.horizon,
        }

    def check(s) -> dict[str, float]:
        mu, pi = softmax(s.behavior_logits), softmax(s.current_logits)
        sums = {(0, 0.0): 1.0}
        for t in range(s.horizon):
            after: dict[tuple[int, float], float] = defaultdict(float)
            for (row, total), mass in sums.items():
                for a in range(s.actions):
                    grown = round(total + float(np.log(pi[row, a] / mu[row, a])), 12)
                    after[s.successor(row, a, t), grown] += mass * mu[row, a]
            sums = after
        means = {total: np.exp(total / s.horizon) for _, total in sums}
        return {
            "loss": -float(np.log(s.sequences.mass @ s.mean)),
            "kept": float(sum(mass for (_, total), mass in sums.items() if s.low <= means[total] <= s.high)),
            "kl": -float(s.sequences.mass @ s.mean_log),
        }

    wrong = {"limit of long sequences taken for short ones": lambda s: {"loss": s.predict()["kl"]}}

    points = (sequence_point("iid", 6, 1, **_BAND), sequence_point("position", 3, 3, **_BAND), _MARKOV)
    more = (
        {"actions": 2, "horizon": 12, "dependence": "iid", **_BAND}
        | {"behavior_logits": ((0.0, 0.0),), "current_logits": ((0.6, 0.0),)},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        mask = sim.factors.geometric_mask(point["low"], point["high"])
        # The cap lies above every ratio.
        spec = lab.planted(point, sim.methods.truncated_is("geometric", cap=1e6).replace(factors=(mask,)), plant)
        step, every = lab.step_of(spec, point), lab.step_of(spec, point, factors=())
        found = {
            "loss": -math.log(sim.diagnostics.applied_mean.measure(every).item()),
            "kept": step.statistics["kept_sequences"].item(),
            "kl": sim.diagnostics.kl_k1.measure(step).item() / point["horizon"],
        }
        return {name: lab.exactly(value) for name, value in found.items()}

    defects = {"sequence ratio in its place": lambda: (lab.with_method(weight=lab.Ratio("sequence")), _MARKOV)}
