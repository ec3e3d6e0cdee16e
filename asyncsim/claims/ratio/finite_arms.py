r"""Ratios of two softmax policies over finitely many arms are bounded, and so are all their moments.

over finitely many arms, `E w^p = sum pi^p mu^(1-p)`, and ratios in `[m, M]` have `E w^2 <= m + M - m M`

E_mu w^p = sum_a pi_a^p mu_a^{1-p} = e^{(p-1) D_p(pi || mu)} ("moment[p]"), with D_p the divergence of Renyi. Among all
laws of a ratio of mean 1 in [m, M] the largest second moment is m + M - m M ("largest"), that of the law on m and M
alone; m and M are the least and largest ratio of the point. So heavy tails of ratios need long products, continuous
actions, or arms that behavior hardly plays. Derivation: (w - m)(M - w) >= 0 on average. Domain: softmax policies that
differ. Second route: the cumulant function lse(p theta + (1 - p) phi) of the logits; all laws on two points of a grid.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from asyncsim.claims._bandit import PolicyPair
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, replaced

_POWERS = (0.5, 2.0, 3.0)
_GRID = 101
_TWO = {"behavior_logits": (0.0, 1.0), "current_logits": (1.0, -0.5)}


def _power(p: float) -> lab.Metric:
    return lab.Metric(f"power[{p:g}]", lambda step: step.mean((p * step.sequence_log_ratio).exp()), ("log_prob",))


class FiniteArms(PolicyPair, Claim):
    kind, source = "identity", "textbook; Bhatia and Davis 2000 (American Mathematical Monthly 107)"
    through = "oracle"

    def joint(self) -> None:
        low, high = self.range = float((self.pi / self.mu).min()), float((self.pi / self.mu).max())
        self.require(high - low > 1e-3, "current_logits", "such that ratios differ by 1e-3", "move one")

    def predict(s) -> dict[str, float]:
        low, high = s.range
        moments = {f"moment[{p:g}]": float(s.mu @ (s.pi / s.mu) ** p) for p in _POWERS}
        return moments | {"largest": low + high - low * high}

    def check(s) -> dict[str, float]:
        phi, theta = s.logits
        logs = [(p, logsumexp(p * theta + (1.0 - p) * phi)) for p in _POWERS]
        moments = {f"moment[{p:g}]": math.exp(x - p * logsumexp(theta) - (1.0 - p) * logsumexp(phi)) for p, x in logs}
        # Laws on two points are the extreme ones among those of mean 1.
        low, high = s.range
        below, above = np.linspace(low, 1.0, _GRID)[:-1, None], np.linspace(1.0, high, _GRID)[1:]
        share = (1.0 - below) / (above - below)
        return moments | {"largest": float((share * above**2 + (1.0 - share) * below**2).max())}

    wrong = {"largest ratio for the second moment": lambda s: {"largest": s.range[1]}}

    points = ({"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}, _TWO)
    more = ({"behavior_logits": (0.0, 3.0, 0.0, -2.0), "current_logits": (1.0, 0.0, 0.5, 0.0)},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        current, behavior = (np.array([point[f"{name}_logits"]]) for name in ("current", "behavior"))

        def metrics(*pair: np.ndarray) -> list[np.ndarray]:
            spec = lab.weights.bandit(pair[0].shape[1], ["chi_square", _power(0.5), _power(3.0)])
            return lab.metrics_of(plant(spec), *pair)

        chi_square, half, third = metrics(current, behavior)
        read = {"moment[0.5]": half[0], "moment[2]": 1.0 + chi_square[0], "moment[3]": third[0]}
        # Ratios in [m, M] of mean 1: on both ends alone, and drawn on five arms.
        pi, mu = (np.exp(x) / np.exp(x).sum() for x in (current, behavior))
        low, high = float((pi / mu).min()), float((pi / mu).max())
        logits, deviation = lab.weights.drawn(5, seed, "finite-arms")
        mu = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        centered = deviation - (mu * deviation).sum(1, keepdims=True)
        room = np.where(centered > 0.0, (high - 1.0) / centered, (low - 1.0) / centered).min(1, keepdims=True)
        inside = np.log(mu * (1.0 + (1.0 - 1e-9) * room * centered)), np.log(mu)
        pairs = lab.weights.two_arms((1.0 - low) / (high - low), high), inside
        read["largest"] = max(1.0 + metrics(*pair)[0].max() for pair in pairs)
        return lab.to_share(read, 1e-10)

    defects = {
        "scored at another temperature": lambda: lab.with_policy(lab.Tempered),
        "variance of log ratios": lambda: replaced(diagnostics=["log_ratio_variance", _power(0.5), _power(3.0)]),
    }
