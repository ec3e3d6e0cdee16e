r"""The effective sample size falls exponentially with the length of a sequence, at the rate ln(1 + chi^2) per token.

`-ln(ESS/N) = L ln(1 + chi^2)` at length `L`, close to `L Var ln w` for small shifts

-ln(ESS/N) = L ln(1 + chi^2) for L independent equal tokens, whose log ratio has the variance L s^2, s^2 = Var_mu ln w.
For small shifts the rate is s^2, so that ESS/N is near e^{-L s^2}; "per_variance" is how near, rate over s^2, and its
distance from 1 vanishes with the shift. Derivation: E W^2 = (1 + chi^2)^L. Domain: softmax policies that differ,
tokens independent, many samples; at most 20,000 count vectors. Second route: every vector of counts of the actions with
its multinomial probability. Source: arXiv 1511.01437 for the product.
"""

import math
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp

from asyncsim.base.declared import Counts
from asyncsim.claims._bandit import PolicyPair, counted
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, replaced

_SMALLEST = 1e-4
_SMALL = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (0.36, -0.26, 0.5), "lengths": (1, 2, 4, 6)}
_LARGE = {"behavior_logits": (0.3, -0.2), "current_logits": (1.1, -0.9), "lengths": (2, 5, 10)}


def _read(size: Any = "ess") -> Plant:
    """Plant that replaces the ESS by another metric, beside the variance of the log ratio."""
    return replaced(diagnostics=[size, "log_ratio_variance"])


class LengthLaw(PolicyPair, Claim):
    kind, source = "exponent", "arXiv 1511.01437"
    through = "oracle"

    lengths = Counts(1, 4096, typical=(1, 8), example=(1, 2, 4), unit="tokens", doc="lengths that are compared")

    def joint(self) -> None:
        self.list_counts("lengths", max(self.lengths))
        apart = self._variance() > _SMALLEST**2
        self.require(apart, "current_logits", f"{_SMALLEST:g} nats from behavior or more", "move one")

    def _variance(s) -> float:
        """Variance of one token's log ratio under behavior."""
        change = s.current_logits - s.behavior_logits
        return float(s.mu @ (change - s.mu @ change) ** 2)

    def _quantities(s, decay: np.ndarray, variance: np.ndarray) -> dict[str, float]:
        """Quantities from -ln(ESS/N) and the variance of the log ratio at every length."""
        x = np.array(s.lengths, dtype=float)
        x -= x.mean()
        rate = float(x @ decay / (x @ x))
        cells = {f"ess[{length}]": math.exp(-value) for length, value in zip(s.lengths, decay, strict=True)}
        return {**cells, "rate": rate, "per_variance": rate * s.lengths[0] / float(variance[0])}

    def predict(s, rate: float | None = None) -> dict[str, float]:
        lengths = np.array(s.lengths)
        return s._quantities((math.log1p(s.chi_square) if rate is None else rate) * lengths, s._variance() * lengths)

    def check(s) -> dict[str, float]:
        log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
        decay, variance = [], []
        for length in s.lengths:
            counts, log_mass = counted(length, log_mu)
            log_w, mass = counts @ (log_pi - log_mu), np.exp(log_mass)
            decay.append(logsumexp(2.0 * log_w + log_mass))
            variance.append(mass @ (log_w - mass @ log_w) ** 2)
        return s._quantities(np.array(decay), np.array(variance))

    wrong = {"variance in place of ln(1 + chi^2)": lambda s: s.predict(s._variance())}

    points = (_SMALL, _LARGE)

    def reach(self, point: Point) -> str | None:
        actions, longest = len(point["behavior_logits"]), max(point["lengths"])
        most = int(math.log(1 << 18, actions) + 1e-9)
        few = f"lengths of at most {most} tokens for {actions} actions, not {longest}, to list all rows; shorten it"
        return few if longest > most else None

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        lengths, places = point["lengths"], (point["current_logits"], point["behavior_logits"])
        read = []
        for length in lengths:
            spec: lab.Spec = plant(_read()(lab.weights.bandit(len(places[0]), [], length)))
            read.append([each.item() for each in lab.metrics_of(spec, *places)])
        ess, variance = (np.array(values) for values in zip(*read, strict=True))
        rate = -float(np.polyfit(lengths, np.log(ess), 1)[0])
        values = {f"ess[{length}]": float(each) for length, each in zip(lengths, ess, strict=True)}
        values |= {"rate": rate, "per_variance": rate * lengths[0] / float(variance[0])}
        return lab.to_share(values, lab.ROUNDING * (1.0 + 1.0 / abs(rate)))

    defects = {"effective size of tokens": lambda: (_read("ess_token"), _LARGE)}
