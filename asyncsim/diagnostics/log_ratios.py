"""Log ratios and KL divergences of a step: moments, extremes, quantiles, estimates, stale caches."""

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import number
from asyncsim.diagnostics._diagnostic import ANY, POSITIVE, READS, SHARE, metric
from asyncsim.diagnostics._levels import LEVEL, OF, advantages, over_tokens, token_share, weights_of
from asyncsim.step import ratios
from asyncsim.step.step import Step

_TEXTS = checks.table(__file__, "texts.toml")["log_ratios"]


@metric("in nats per sequence", ANY, "textbook", READS)
def log_ratio_mean(step: Step) -> Tensor:
    """Mean of the sequence log ratios in the batch.

    E log W = sum_i mass_i log W_i with W_i = pi(y_i) / mu(y_i): minus KL(mu || pi) in expectation. Blind to spread:
    ratios far above and far below 1 cancel.
    """
    return ratios.log_moments(step.sequence_log_ratio, step.step_mass)[0]


@metric("in nats^2", POSITIVE, "textbook", READS, default=True, of=OF)
def log_ratio_variance(step: Step, of: str = "sequence") -> Tensor:
    """Variance of the sequence log ratios in the batch.

    v = Var log w = E (log w - E log w)^2, divided by n,

    For normal log ratios ESS/N = exp(-Var log W). Blind to the mean and to tails heavier than normal.
    """
    return ratios.log_moments(*weights_of(step, of)[:2])[1]


staleness_variance = log_ratio_variance(
    "staleness",
    name="staleness_variance",
    doc="Variance of the part of the sequence log ratio that is due to stale weights.",
    **_TEXTS["staleness_variance"],
)

mismatch_variance = log_ratio_variance(
    "mismatch",
    name="mismatch_variance",
    doc="Variance of the part of the sequence log ratio that is due to the sampler's numerics.",
    **_TEXTS["mismatch_variance"],
)

_EXTREME = "in nats, infinite where a ratio is, NaN where one is NaN"


@metric(_EXTREME, ANY, "textbook", READS)
def log_ratio_min(step: Step, level: Any = LEVEL) -> Tensor:
    """Minimum untruncated log ratio of the step.

    l = min over the step of log w, w = W_i or r_it = pi/mu untruncated, of what has mass. Blind to all ratios but one,
    and it grows with the number of samples: compare batches of one size.
    """
    return ratios.quantile(*weights_of(step, level)[:2], 0.0)


@metric(_EXTREME, ANY, "textbook", READS)
def log_ratio_max(step: Step, level: Any = LEVEL) -> Tensor:
    """Maximum untruncated log ratio of the step.

    l = max over the step of log w, w = W_i or r_it = pi/mu untruncated, of what has mass. Blind to all ratios but one,
    and it grows with the number of samples: compare batches of one size.
    """
    return ratios.quantile(*weights_of(step, level)[:2], 1.0)


@metric("in nats, always a log ratio that occurs", ANY, "textbook", READS)
def log_ratio_quantile(
    step: Step, q: Any = number(0.5, "share of ratios that lie below", 0.0, 1.0, varies=False), level: Any = LEVEL
) -> Tensor:
    """Quantile of the untruncated log ratios of the step.

    l_q = min {x : E [log w <= x] >= q}, w = W_i or r_it = pi/mu untruncated, by mass. Quantiles of log w are logs of
    the quantiles of w; usual are q = 0.01, 0.05, 0.5, 0.95 and 0.99, each a metric. Blind to how far beyond it ratios
    lie; with n samples quantiles below 1/n are the smallest one.
    """
    return ratios.quantile(*weights_of(step, level)[:2], q)


@metric("in nats per sequence, never negative", POSITIVE, "textbook (Schulman's k3)", READS, default=True)
def kl(step: Step) -> Tensor:
    """Mean KL(behavior || current) per sequence, estimated by k3 from the batch.

    KL(mu || pi) = E (W_i - 1 - log W_i) with W_i = pi(y_i) / mu(y_i) untruncated. Assumes E W = 1 and is off by E W - 1
    where it is not, as with top-p: `kl_k1` is right then, and its parts `kl_staleness` and `kl_mismatch`. Blind to
    whether that is so (`mean_weight` sees it), and one heavy ratio can be all of it.
    """
    return step.mean(step.sequence_log_ratio.expm1() - step.sequence_log_ratio)


@metric("in nats per sequence", ANY, "textbook (Schulman's k1)", READS, of=("sequence", "staleness", "mismatch"))
def kl_k1(step: Step, of: str = "sequence") -> Tensor:
    """Mean KL(behavior || current) per sequence, estimated by k1 from the batch.

    k = E (-log w)

    It is KL(mu || pi), unbiased, and negative in unlucky batches. Blind to spread: ratios far above and far below 1
    cancel.
    """
    return -step.mean(weights_of(step, of)[0])


kl_staleness = kl_k1(
    "staleness",
    name="kl_staleness",
    doc="Part of KL(behavior || current) that is due to stale weights, estimated by k1.",
    **_TEXTS["kl_staleness"],
)

kl_mismatch = kl_k1(
    "mismatch",
    name="kl_mismatch",
    doc="KL divergence between sampler and trainer at equal weights, estimated by k1.",
    **_TEXTS["kl_mismatch"],
)


@metric("in nats squared per sequence", POSITIVE, "textbook (Schulman's k2). Equation: k2 = (log W)^2 / 2", READS)
def kl_k2(step: Step) -> Tensor:
    """Mean KL(behavior || current) per sequence, estimated by k2 from the batch.

    KL(mu || pi) ~ E (log W_i)^2 / 2 with W_i = pi(y_i) / mu(y_i) untruncated: never negative, biased, right to second
    order in the drift. Blind to the sign of log ratios.
    """
    return step.mean(0.5 * step.sequence_log_ratio**2)


@metric("in nats per sequence", ANY, "textbook", READS)
def kl_reverse(step: Step) -> Tensor:
    """Mean KL(current || behavior) per sequence, estimated from the batch.

    KL(pi || mu) = E_mu W_i log W_i with W_i = pi(y_i) / mu(y_i) untruncated: the other direction of `kl`. Unbiased on
    full support, and negative in batches that miss the heavy ratios. Blind to a tail that the batch has not drawn.
    """
    log_weight = step.sequence_log_ratio.double()
    # A weight of 0 contributes 0: W log W vanishes with W, while 0 times -inf is NaN.
    return step.mean((log_weight.exp() * log_weight).where(log_weight != -math.inf, log_weight.new_zeros(())))


@metric("in nats squared", POSITIVE, "2510.01161, over all tokens", READS)
def m2_all(step: Step) -> Tensor:
    """Mean squared token log ratio.

    M2 = E l^2 with l_it = log pi/mu, over the tokens of the step by mass; delta^2 + delta^4/4 for normal policies delta
    standard deviations apart. Blind to signs, and to products along a sequence.
    """
    return over_tokens(step, step.log_ratio**2)


@metric("in nats squared, 0 where H is empty", POSITIVE, "2510.01161", READS)
def m2_harmful(step: Step) -> Tensor:
    """Mean squared log ratio of harmful tokens: those that have already moved along their advantage.

    M2 = E [l^2 | H] with l_it = log pi/mu and H = {A > 0, l > 0} or {A < 0, l < 0}, by mass. Blind to tokens that moved
    back, and to how many are harmful.
    """
    log_ratio = step.log_ratio
    share = token_share(step)
    mass = torch.where(advantages(step) * log_ratio > 0, share, torch.zeros_like(share))
    total = mass.sum((1, 2, 3))
    # A token without mass may be impossible: 0 times infinity is NaN.
    squares = torch.where(mass > 0, mass * log_ratio**2, torch.zeros_like(mass)).sum((1, 2, 3))
    moment = squares / torch.where(total > 0, total, torch.ones_like(total))
    # A log ratio that is NaN is neither: it must not pass as harmless.
    broken = torch.where(share > 0, share * log_ratio, torch.zeros_like(share)).sum((1, 2, 3))
    return torch.where(torch.isnan(broken), broken, moment)


def _gap(step: Step) -> Tensor:
    """log mu - log mu_reread of each token, `[R, G, N, T]`, exactly 0 where no stale cache entry was used."""
    sampled = step.behavior["log_prob"]
    return ratios.log_ratio(sampled, step.behavior.get("reread_log_prob", sampled), step.mask)


@metric("a pure number in [0, 1]; 0 where caches are read again", SHARE, "this package", READS)
def cache_stale(step: Step) -> Tensor:
    """Fraction of tokens that were sampled with cache entries of older weights.

    share = E 1[token t read an entry that other weights wrote], over tokens by mass. Blind to how far apart the weights
    are (`cache_gap`).
    """
    return (step.share * step.behavior.get("stale_cache", torch.zeros_like(step.behavior["log_prob"]))).sum((1, 2, 3))


@metric("in nats, exactly 0 where no entry is old", POSITIVE, "this package", READS)
def cache_gap(step: Step) -> Tensor:
    """Mean absolute log-prob difference between sampling with old cache entries and with a recomputed cache.

    gap = E |log mu(y_t) - log mu_reread(y_t)| over tokens by mass, both in the sampler's numerics at the weights of the
    token's version. In bfloat16 the rounding of the second pass counts too. Blind to its sign (`cache_kl`).
    """
    return (step.share * _gap(step).abs()).sum((1, 2, 3))


@metric("in nats per sequence", ANY, "this package", READS)
def cache_kl(step: Step) -> Tensor:
    """KL divergence between sampling with old cache entries and with a recomputed cache, estimated by k1.

    KL(mu || mu_reread) = E sum_t (log mu - log mu_reread)(y_t), the part of `kl_mismatch` that is due to old entries.
    Unbiased, and negative in unlucky batches. Blind to staleness of the version itself (`kl_staleness`).
    """
    return step.mean(_gap(step).sum(-1))
