"""Masks: tokens and sequences whose ratios are out of bounds leave the loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.factors._factor import RATIOS, Band, Bounded, Mask, at_most, log_bound, log_ratio, within
from asyncsim.learning.step import Step


class TokenMask(Band):
    """[low <= ratio of the token <= high]; see `token_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """The token's own log ratio."""
        return of_tokens


def token_mask(low: Any = 0.5, high: Any = 2.0, ratio: str = "r") -> TokenMask:
    """Drop tokens whose ratio leaves a band (IcePop, masked importance sampling).

    Mask of tokens: c_t -> c_t [low <= rho_t <= high], both bounds included.

    rho_t is r_t = pi/mu (staleness, mismatch and drift) or h_t = pi_prox/mu, which a batch's own updates do not change.
    The bounds act on the ratio itself, not on its inverse as a bound on -log r would: [0.6, 1.6] keeps 0.6, not 0.625,
    and loses 1.65. Dropped tokens stay in the denominators, so others are not inflated; a ratio that is not finite is
    dropped. Nothing is dropped where the policies agree.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Published
    bands: 0.5 to 2, 0.5 to 5. Returns a factor `[R, G, N, T]`. Raises `InputError` for bounds outside their range or an
    unknown ratio. Source: 2510.18855, IcePop.

    >>> token_mask(0.5, 5.0).describe()
    {'factor': 'token_mask', 'low': 0.5, 'high': 5.0, 'ratio': 'r'}
    """
    return TokenMask(*within(low, high, ratio))


class SequenceMask(Band):
    """[low <= W <= high]; see `sequence_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """Log ratio of the sequence."""
        return step.sequence(of_tokens.double())


def sequence_mask(low: Any = 0.5, high: Any = 2.0, ratio: str = "r") -> SequenceMask:
    """Drop sequences whose ratio leaves a band.

    Mask of sequences: c_t -> c_t [low <= W_i <= high] with W_i = prod_t rho_t, both bounds included.

    rho is r = pi/mu or h = pi_prox/mu. log W_i = sum_t log rho_t is summed in float64 and never limited. A dropped
    sequence stays in the denominators; one whose ratio is not finite is dropped. The same band keeps fewer of the
    longer sequences, since Var log W grows with the length.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Returns a
    factor `[R, G, N, 1]`. Raises `InputError` for bounds outside their range or an unknown ratio. Source: verl,
    documentation of rollout correction, rejection by seq_sum_k1.

    >>> sequence_mask().describe()
    {'factor': 'sequence_mask', 'low': 0.5, 'high': 2.0, 'ratio': 'r'}
    """
    return SequenceMask(*within(low, high, ratio))


class GeometricMask(Band):
    """[low <= exp(L / T) <= high]; see `geometric_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """Mean log ratio of the sequence's tokens."""
        return step.geometric(of_tokens.double())


def geometric_mask(low: Any = 0.999, high: Any = 1.001, ratio: str = "r") -> GeometricMask:
    """Drop sequences whose geometric mean ratio leaves a band.

    Mask of sequences: c_t -> c_t [low <= s_i <= high] with s_i = exp(mean_t log rho_t), both bounds included.

    rho is r = pi/mu or h = pi_prox/mu; s_i is no importance weight, E_mu[s_i] is not 1. Ratios above and below 1 cancel
    inside a sequence, which then stays. The published band is so narrow that a little staleness drops every sequence:
    the gradient is then exactly 0, and `kept_tokens` of the trace says so. What is not finite is dropped.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Returns a
    factor `[R, G, N, 1]`. Raises `InputError` for bounds outside their range or an unknown ratio. Source: verl,
    documentation of rollout correction, rejection by seq_mean_k1.

    >>> geometric_mask(high=1.002).describe()
    {'factor': 'geometric_mask', 'low': 0.999, 'high': 1.002, 'ratio': 'r'}
    """
    return GeometricMask(*within(low, high, ratio))


class K2Mask(Bounded):
    """[reduced l^2 / 2 <= high]; see `k2_mask`."""

    def statistic(self, of_tokens: Tensor) -> Tensor:
        """l^2 / 2."""
        return 0.5 * of_tokens * of_tokens


def k2_mask(high: Any = 2.5, reduce: str = "max", ratio: str = "r") -> K2Mask:
    """Drop sequences, or single tokens, that have a large squared log ratio.

    Mask by the second-order divergence: c_t -> c_t [stat <= high], stat of k2_t = l_t^2 / 2.

    l_t = log r_t, or log h_t. stat is k2_t itself ("token": tokens are dropped), or its sum, mean or maximum over the
    sequence's tokens (whole sequences are dropped). Both directions count alike: "max" with high = log(1e-4)^2 / 2 =
    42.4 is the two-sided `token_veto`. Computed in float64 on unlimited ratios; what is not finite is dropped.

    Arguments: `high` >= 0 in squared nats (or one per replicate), published 1.5 to 4; `reduce`, "token", "sum", "mean"
    or "max"; `ratio`, "r" = pi/mu or "h" = pi_prox/mu. Returns a factor `[R, G, N, T]` (token) or `[R, G, N, 1]`.
    Raises `InputError` for a negative bound or unknown names. Source: verl, documentation of rollout correction,
    rejection by k2.

    >>> k2_mask(reduce="token").describe()
    {'factor': 'k2_mask', 'high': 2.5, 'reduce': 'token', 'ratio': 'r'}
    """
    return K2Mask(*at_most(high, reduce, ratio))


class K3Mask(Bounded):
    """[reduced e^l - 1 - l <= high]; see `k3_mask`."""

    def statistic(self, of_tokens: Tensor) -> Tensor:
        """e^l - 1 - l."""
        return torch.expm1(of_tokens) - of_tokens


def k3_mask(high: Any = 0.01, reduce: str = "mean", ratio: str = "r") -> K3Mask:
    """Drop sequences, or single tokens, that have a large sampled divergence of behavior from current policy.

    Mask by a sampled divergence: c_t -> c_t [stat <= high], stat of k3_t = e^l_t - 1 - l_t >= 0.

    l_t = log r_t, or log h_t. E_mu[k3_t] = KL(mu, pi) in the token's state, since E_mu[e^l] = 1. A ratio far above 1
    counts more than its inverse (r = 4: 1.61, r = 1/4: 0.64). stat is k3_t itself ("token": tokens are dropped), or its
    sum, mean or maximum over the sequence's tokens (whole sequences are dropped). Computed in float64 on unlimited
    ratios; what is not finite is dropped.

    Arguments: `high` >= 0 in nats (or one per replicate); `reduce`, "token", "sum", "mean" or "max"; `ratio`, "r" =
    pi/mu or "h" = pi_prox/mu. Returns a factor `[R, G, N, T]` (token) or `[R, G, N, 1]`. Raises `InputError` for a
    negative bound or unknown names. Source: verl, documentation of rollout correction, rejection by k3.

    >>> k3_mask().describe()
    {'factor': 'k3_mask', 'high': 0.01, 'reduce': 'mean', 'ratio': 'r'}
    """
    return K3Mask(*at_most(high, reduce, ratio))


@dataclass(frozen=True)
class TokenVeto(Mask):
    """[min_t rho_t >= threshold]; see `token_veto`."""

    threshold: Any = field(default=1e-4, metadata=MARK)
    ratio: str = "r"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Sequences without such a token, `[R, G, N, 1]`."""
        of_tokens = log_ratio(step, self.ratio)
        # NaN passes no comparison; infinity is no ratio.
        return ((of_tokens >= log_bound(self.threshold)) & (of_tokens < torch.inf)).all(-1, keepdim=True)


def token_veto(threshold: Any = 1e-4, ratio: str = "r") -> TokenVeto:
    """Drop whole sequences that contain a token which the current policy would hardly draw.

    Mask of sequences: c_t -> c_t [min_k rho_k >= threshold], one token vetoes all of its sequence.

    rho is r = pi/mu or h = pi_prox/mu. One-sided: a token that became likelier vetoes nothing, however much
    (`k2_mask(9.21**2 / 2, "max")` is the two-sided form). A ratio that is not finite vetoes too.

    Arguments: `threshold` in [0, 1], a pure number (or one per replicate); `ratio`, "r" or "h". Returns a factor
    `[R, G, N, 1]`. Raises `InputError` for a threshold outside its range or an unknown ratio. Source: verl,
    documentation of rollout correction, veto threshold (older versions).

    >>> token_veto().describe()
    {'factor': 'token_veto', 'threshold': 0.0001, 'ratio': 'r'}
    """
    return TokenVeto(
        knob("threshold", threshold, "on-policy data has ratio 1; give a small ratio such as 1e-4", 0.0, 1.0),
        checks.one_of("ratio", ratio, RATIOS, "r is pi/mu, h is pi_prox/mu"),
    )


@dataclass(frozen=True)
class Opsm(Mask):
    """1 - [A < 0 and mean_t(log pi_x - log pi) > delta]; see `opsm`."""

    delta: Any = field(default=1e-4, metadata=MARK)
    reference: str = "behavior"

    @property
    def proximal(self) -> bool:
        """Whether it reads log-probs of the proximal policy."""
        return self.reference == "proximal"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Where the advantage is not negative or the sequence has not become unlikely, `[R, G, N, T or 1]`."""
        of_tokens = step.log_ratio if self.reference == "behavior" else step.drift
        fallen = -step.geometric(of_tokens.double())
        return torch.isfinite(fallen) & ((advantage >= 0) | (fallen <= per_sample(self.delta)))


def opsm(delta: Any = 1e-4, reference: str = "behavior") -> Opsm:
    """Drop sequences of negative advantage that have moved far from another policy (off-policy sequence masking).

    Mask of sequences: c_t -> c_t (1 - [A < 0 and mean_t(log pi_x - log pi) > delta]).

    The mean over the sequence's own tokens estimates KL(x, pi) from samples of x. The current policy has come to avoid
    what x drew, and a negative advantage would push it further down. Positive advantages are never dropped. pi_x is
    "behavior" (as published) or "proximal" (as some code has it: then nothing is dropped in the first update on a
    batch, whatever the staleness). Means that are not finite are dropped. Advantages that differ from token to token
    decide for their token. Formula and constant of the published form are known from second hand: a reconstruction.

    Arguments: `delta` >= 0 in nats per token (or one per replicate); `reference`, "behavior" or "proximal". Returns a
    factor `[R, G, N, T or 1]`, shaped like the advantages. Raises `InputError` for a negative delta or an unknown
    reference. Source: 2512.02556, off-policy sequence masking.

    >>> opsm(reference="proximal").proximal
    True
    """
    return Opsm(
        knob("delta", delta, "give the largest mean fall in nats per token that stays", 0.0),
        checks.one_of("reference", reference, ("behavior", "proximal"), "say from which policy the fall is measured"),
    )
