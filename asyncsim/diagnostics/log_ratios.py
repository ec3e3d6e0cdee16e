"""Log ratios of a step and what is estimated from them: moments, extremes, quantiles, divergences."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.diagnostics._diagnostic import Metric, metric
from asyncsim.diagnostics._levels import OF, Bound, advantages, checked, named, ratios_of, token_share, weights_of
from asyncsim.diagnostics._ranges import ANY, POSITIVE
from asyncsim.step import ratios
from asyncsim.step.step import Step


@metric(outputs=("log_prob",), range=ANY)
def log_ratio_mean(step: Step) -> Tensor:
    """Mean sequence log ratio of the batch.

    E log W = sum_i mass_i log W_i with W_i = pi(y_i) / mu(y_i): shape `[R]`, in nats per sequence; minus KL(mu || pi)
    in expectation. Blind to spread: ratios far above and far below 1 cancel. Source: textbook.
    """
    return ratios.log_moments(step.sequence_log_ratio, step.step_mass)[0]


@metric(outputs=("log_prob",), default=True, of=OF, range=POSITIVE)
def log_ratio_variance(step: Step, of: str = "sequence") -> Tensor:
    """Variance of the sequence log ratio in the batch.

    Var log W_i = E (log W_i - E log W)^2 by mass, divided by n, with W_i = pi(y_i) / mu(y_i): shape `[R]`, in nats^2.
    For normal log ratios ESS/N = exp(-Var log W). Blind to the mean and to tails heavier than normal. Source: textbook.
    """
    return ratios.log_moments(*weights_of(step, of)[:2])[1]


staleness_variance = log_ratio_variance(
    "staleness",
    name="staleness_variance",
    doc="""Variance of the part of the sequence log ratio that is due to stale weights.

    v = Var_mu sum_t (log pi_current - log pi_behavior)(y_it), both in the trainer's numerics, over the step's samples
    by mass: shape `[R]`, in nats squared. For normal log ratios ESS/N = exp(-v), whatever the length. Blind to a common
    shift of the log ratios. Source: 1511.01437 for its use.
    """,
)


mismatch_variance = log_ratio_variance(
    "mismatch",
    name="mismatch_variance",
    doc="""Variance of the part of the sequence log ratio that is due to the sampler's numerics.

    v = Var_mu sum_t (log pi_trainer - log pi_sampler)(y_it) at the behavior weights, over the step's samples by mass:
    shape `[R]`, in nats squared; 0 where the sampler is the trainer. Blind to a common shift. Source: this package.
    """,
)


def _quantile(step: Step, q: float, level: str) -> Tensor:
    return ratios.quantile(*ratios_of(step, level), q)


def log_ratio_min(level: str = "sequence") -> Metric:
    """Smallest untruncated log ratio of the step.

    l = min over the step of log w, w = W_i or r_it = pi/mu untruncated, of what has mass.

    Arguments: `level`, "sequence" or "token". Returns a metric of shape `[R]`, in nats, infinite where a ratio is,
    NaN where one is NaN. Raises `InputError` for an unknown level. Blind to all ratios but one, and it grows with the
    number of samples: compare batches of one size. Source: textbook.

    >>> log_ratio_min("token").name
    'log_ratio_min_token'
    """
    name = named("log_ratio_min", level=(checked(level), "sequence"))
    return Metric(name, Bound(_quantile, (0.0, level)), outputs=("log_prob",), range=ANY)


def log_ratio_max(level: str = "sequence") -> Metric:
    """Largest untruncated log ratio of the step.

    l = max over the step of log w, w = W_i or r_it = pi/mu untruncated, of what has mass.

    Arguments: `level`, "sequence" or "token". Returns a metric of shape `[R]`, in nats, infinite where a ratio is,
    NaN where one is NaN. Raises `InputError` for an unknown level. Blind to all ratios but one, and it grows with the
    number of samples: compare batches of one size. Source: textbook.

    >>> log_ratio_max("token").name
    'log_ratio_max_token'
    """
    name = named("log_ratio_max", level=(checked(level), "sequence"))
    return Metric(name, Bound(_quantile, (1.0, level)), outputs=("log_prob",), range=ANY)


def log_ratio_quantile(q: float = 0.5, level: str = "sequence") -> Metric:
    """Quantile of the untruncated log ratios of the step.

    l_q = min {x : E [log w <= x] >= q}, w = W_i or r_it = pi/mu untruncated, by mass. Quantiles of log w are logs of
    the quantiles of w; usual are q = 0.01, 0.05, 0.5, 0.95 and 0.99, each a metric.

    Arguments: `q` in [0, 1], a pure number; `level`, "sequence" or "token". Returns a metric of shape `[R]`, in nats,
    always a log ratio that occurs. Raises `InputError` for a q outside [0, 1] and an unknown level. Blind to how far
    beyond it ratios lie; with n samples quantiles below 1/n are the smallest one. Source: textbook.

    >>> log_ratio_quantile(0.99, level="token").name
    'log_ratio_quantile_0.99_token'
    """
    share = checks.real("q", q, "give the share of ratios that lie below", 0.0, 1.0)
    name = named("log_ratio_quantile", q=(share, 0.5), level=(checked(level), "sequence"))
    return Metric(name, Bound(_quantile, (share, level)), outputs=("log_prob",), range=ANY)


@metric(outputs=("log_prob",), default=True, range=POSITIVE)
def kl(step: Step) -> Tensor:
    """Mean divergence of behavior from current policy per sequence, k3 estimate on the batch.

    KL(mu || pi) = E (W_i - 1 - log W_i) with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence,
    never negative. Assumes E W = 1 and is off by E W - 1 where it is not, as with top-p: `kl_k1` is right then, and
    its parts `kl_staleness` and `kl_mismatch`. Blind to whether that is so (`mean_weight` sees it), and one heavy
    ratio can be all of it. Source: textbook (Schulman's k3).
    """
    return step.mean(step.sequence_log_ratio.expm1() - step.sequence_log_ratio)


@metric(outputs=("log_prob",), of=("sequence", "staleness", "mismatch"), range=ANY)
def kl_k1(step: Step, of: str = "sequence") -> Tensor:
    """Mean divergence of behavior from current policy per sequence, k1 estimate on the batch.

    KL(mu || pi) = E (-log W_i) with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence, unbiased,
    and negative in unlucky batches. Blind to spread: ratios far above and far below 1 cancel. Source: textbook
    (Schulman's k1).
    """
    return -step.mean(weights_of(step, of)[0])


kl_staleness = kl_k1(
    "staleness",
    name="kl_staleness",
    doc="""Part of the divergence of behavior from current policy that is due to stale weights, k1 estimate.

    k = E_mu sum_t (log pi_behavior - log pi_current)(y_it), both in the trainer's numerics: shape `[R]`, in nats per
    sequence. With `kl_mismatch` it adds up to `kl_k1` exactly. It is no divergence where the sampler is another law
    than pi_behavior, and can be negative. Blind to the sampler's numerics. Source: this package.
    """,
)


kl_mismatch = kl_k1(
    "mismatch",
    name="kl_mismatch",
    doc="""Divergence of the sampler from its own weights in the trainer's numerics, k1 estimate.

    k = KL(mu || pi_behavior) = E_mu sum_t (log mu - log pi_behavior)(y_it): shape `[R]`, in nats per sequence, 0
    where the sampler is the trainer; minus log of the kept mass for top-p and top-k alone. Unbiased where reports are
    right, and negative in unlucky batches. Blind to staleness. Source: this package.
    """,
)


@metric(outputs=("log_prob",), range=POSITIVE)
def kl_k2(step: Step) -> Tensor:
    """Mean divergence of behavior from current policy per sequence, k2 estimate on the batch.

    KL(mu || pi) ~ E (log W_i)^2 / 2 with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats squared per
    sequence, never negative; biased, right to second order in the drift. Blind to the sign of log ratios. Source:
    textbook (Schulman's k2). Equation: k2 = (log W)^2 / 2.
    """
    return step.mean(0.5 * step.sequence_log_ratio**2)


@metric(outputs=("log_prob",), range=ANY)
def kl_reverse(step: Step) -> Tensor:
    """Mean divergence of current from behavior policy per sequence, estimated on the batch.

    KL(pi || mu) = E_mu W_i log W_i with W_i = pi(y_i) / mu(y_i) untruncated: shape `[R]`, in nats per sequence; the
    other direction of `kl`. Unbiased on full support, and negative in batches that miss the heavy ratios. Blind to a
    tail that the batch has not drawn. Source: textbook.
    """
    log_weight = step.sequence_log_ratio.double()
    # A weight of 0 contributes 0: W log W vanishes with W, while 0 times -inf is NaN.
    return step.mean((log_weight.exp() * log_weight).where(log_weight != -math.inf, log_weight.new_zeros(())))


@metric(outputs=("log_prob",), range=POSITIVE)
def m2_all(step: Step) -> Tensor:
    """Mean squared token log ratio.

    M2 = E l^2 with l_it = log pi/mu, over the tokens of the step by mass: shape `[R]`, in nats squared; delta^2 +
    delta^4/4 for normal policies delta standard deviations apart. Blind to signs, and to products along a sequence.
    Source: 2510.01161, over all tokens.
    """
    return (token_share(step) * step.log_ratio**2).sum((1, 2, 3))


@metric(outputs=("log_prob",), range=POSITIVE)
def m2_harmful(step: Step) -> Tensor:
    """Mean squared token log ratio over harmful tokens: those moved in the direction of their advantage.

    M2 = E [l^2 | H] with l_it = log pi/mu and H = {A > 0, l > 0} or {A < 0, l < 0}, by mass: shape `[R]`, in nats
    squared, 0 where H is empty. Blind to tokens that moved back, and to how many are harmful. Source: 2510.01161.
    """
    log_ratio = step.log_ratio
    share = token_share(step)
    mass = torch.where(advantages(step) * log_ratio > 0, share, torch.zeros_like(share))
    total = mass.sum((1, 2, 3))
    moment = (mass * log_ratio**2).sum((1, 2, 3)) / torch.where(total > 0, total, torch.ones_like(total))
    # A log ratio that is NaN is neither: it must not pass as harmless.
    broken = (share * log_ratio).sum((1, 2, 3))
    return torch.where(torch.isnan(broken), broken, moment)
