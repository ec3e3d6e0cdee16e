"""Predictions beside the measurements of a sampler's mismatch, in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize, special

from asyncsim import claims


def squared(probabilities: Sequence[float], noise: float) -> float:
    """E w^2 of a token whose sampler's logits carry normal noise: sum pi_a^2 + (1 - sum pi_a^2) e^{s^2}.

    With mu_a ~ pi_a e^{e_a} the weight pi_a/mu_a is e^{-e_a} sum_b pi_b e^{e_b}, so E_mu w^2 is the sum over a and b of
    pi_a pi_b E e^{e_b - e_a}: 1 where a = b, else e^{s^2}.

    >>> round(squared((0.5, 0.5), 0.02), 6)
    1.0002
    """
    same = sum(each * each for each in probabilities)
    return same + (1.0 - same) * math.exp(noise * noise)


def truncated(variance: float, cap: float) -> float:
    """E min(W, cap) of a log-normal weight of mean 1, whose log has this variance in nats^2.

    W < cap under the sampler has probability Phi((log cap + v/2)/sqrt v), and mean Phi((log cap - v/2)/sqrt v).

    >>> round(truncated(1e-6, 2.0), 6)
    1.0
    """
    spread = math.sqrt(variance)
    below, above = ((math.log(cap) + sign * variance / 2) / spread for sign in (-1, 1))
    return float(special.ndtr(below) + cap * (1.0 - special.ndtr(above)))


def variance_at(mean: float, cap: float) -> float:
    """The variance of the log weight, in nats^2, at which weights truncated at `cap` have this mean.

    >>> round(variance_at(truncated(3.6, 2.0), 2.0), 6)
    3.6
    """
    return float(optimize.brentq(lambda variance: truncated(variance, cap) - mean, 1e-6, 1e3))


def batch_ess(variance: float, samples: int, tokens: int = 400) -> float:
    """E[ESS]/N of a batch of sequence weights whose log has this variance: the claim `ess/finite-sample`.

    Asked at so many equal tokens of two actions, log ratio +-d each: what counts of the length is the variance alone.
    """
    d = math.sqrt(variance / tokens)
    point = {"behavior_logits": (0.0, 0.0), "current_logits": (d, -d), "samples": samples, "horizon": tokens}
    return float(claims.claim("ess/finite-sample").predict(point)["ess"])
