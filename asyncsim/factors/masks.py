"""Masks of tokens and sequences by their ratios; weights and cuts by staleness."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import choice, flag, number
from asyncsim.factors import _factor
from asyncsim.factors._factor import HIGH, LOW, RATIO, Band, Bounded, Factor, Mask, factor
from asyncsim.step.step import Step

_USED = {"constant": (), "threshold": ("cutoff", "after", "average"), "polynomial": ("exponent", "average")}


@factor("2510.18855, IcePop", shape="T")
class token_mask(Band):
    """Drop tokens whose ratio is outside of a band (IcePop, masked importance sampling).

    Mask of tokens: c_t -> c_t [low <= rho_t <= high], both bounds included. rho_t is r_t = pi/mu (staleness, mismatch
    and drift) or h_t = pi_prox/mu, which a batch's own updates do not change. The bounds act on the ratio itself, not
    on its inverse as a bound on -log r would: [0.6, 1.6] keeps 0.6, not 0.625, and loses 1.65. Dropped tokens stay in
    the denominators, so others are not inflated; a ratio that is not finite is dropped. Nothing is dropped where the
    policies agree. Published bands: 0.5 to 2, 0.5 to 5.
    """


@factor("verl, documentation of rollout correction, rejection by seq_sum_k1", shape="1")
class sequence_mask(Band):
    """Drop sequences whose ratio is outside of a band.

    Mask of sequences: c_t -> c_t [low <= W_i <= high] with W_i = prod_t rho_t, both bounds included. rho is r = pi/mu
    or h = pi_prox/mu. log W_i = sum_t log rho_t is summed in float64 and never limited. A dropped sequence stays in the
    denominators; one whose ratio is not finite is dropped. The same band keeps fewer of the longer sequences, since Var
    log W grows with the length.
    """

    level = "sequence"


@factor("verl, documentation of rollout correction, rejection by seq_mean_k1", shape="1")
class geometric_mask(Band):
    """Drop sequences whose geometric mean ratio is outside of a band.

    Mask of sequences: c_t -> c_t [low <= s_i <= high] with s_i = exp(mean_t log rho_t), both bounds included. rho is r
    = pi/mu or h = pi_prox/mu; s_i is no importance weight, E_mu[s_i] is not 1. Ratios above and below 1 cancel inside a
    sequence, which then stays. The published band is so narrow that a little staleness drops every sequence: the
    gradient is then exactly 0, and `kept_tokens` of the trace says so. What is not finite is dropped.
    """

    level = "geometric"

    low: Any = LOW.but(0.999)
    high: Any = HIGH.but(1.001)


@factor("verl, documentation of rollout correction, rejection by k2")
class k2_mask(Bounded):
    """Drop sequences, or single tokens, with a large squared log ratio.

    Mask by the second-order divergence: c_t -> c_t [stat <= high], stat of k2_t = l_t^2 / 2. l_t = log r_t, or log h_t.
    stat is k2_t itself ("token": tokens are dropped), or its sum, mean or maximum over the sequence's tokens (whole
    sequences are dropped). Both directions count alike: "max" with high = log(1e-4)^2 / 2 = 42.4 is the two-sided
    `token_veto`. Computed in float64 on unlimited ratios; what is not finite is dropped. Published bounds: 1.5 to 4
    squared nats.
    """

    reduce: Any = Bounded.reduce.but("max")

    def statistic(self, of_tokens: Tensor) -> Tensor:
        return 0.5 * of_tokens * of_tokens


@factor("verl, documentation of rollout correction, rejection by k3")
class k3_mask(Bounded):
    """Drop sequences, or single tokens, with a large k3 estimate of KL(behavior || current).

    Mask by a sampled divergence: c_t -> c_t [stat <= high], stat of k3_t = e^l_t - 1 - l_t >= 0. l_t = log r_t, or log
    h_t. E_mu[k3_t] = KL(mu, pi) in the token's state, since E_mu[e^l] = 1. A ratio far above 1 counts more than its
    inverse (r = 4: 1.61, r = 1/4: 0.64). stat is k3_t itself ("token": tokens are dropped), or its sum, mean or maximum
    over the sequence's tokens (whole sequences are dropped). Computed in float64 on unlimited ratios; what is not
    finite is dropped.
    """

    high: Any = Bounded.high.but(0.01)

    def statistic(self, of_tokens: Tensor) -> Tensor:
        return torch.expm1(of_tokens) - of_tokens


@factor("verl, documentation of rollout correction, veto threshold (older versions)", shape="1")
class token_veto(Mask):
    """Drop every sequence that contains a token with a very small ratio.

    Mask of sequences: c_t -> c_t [min_k rho_k >= threshold], one token vetoes all of its sequence. rho is r = pi/mu or
    h = pi_prox/mu. One-sided: a token that became likelier vetoes nothing, however much (`k2_mask(9.21**2 / 2, "max")`
    is the two-sided form). A ratio that is not finite vetoes too.
    """

    threshold: Any = number(
        1e-4, "smallest ratio", 0.0, 1.0, remedy="on-policy data has ratio 1; give a small ratio such as 1e-4"
    )
    ratio: str = RATIO

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        of_tokens = _factor.log_ratio(step, self.ratio)
        # NaN passes no comparison; infinity is no ratio.
        return ((of_tokens >= _factor.log_bound(self.threshold)) & (of_tokens < torch.inf)).all(-1, keepdim=True)


@factor("2512.02556, off-policy sequence masking")
class opsm(Mask):
    """Off-policy sequence masking: drop sequences of negative advantage from which the policy has moved away.

    Mask of sequences: c_t -> c_t (1 - [A < 0 and mean_t(log pi_x - log pi) > delta]). The mean over the sequence's own
    tokens estimates KL(x, pi) from samples of x. The current policy has come to avoid what x drew, and a negative
    advantage would push it further down. Positive advantages are never dropped. pi_x is "behavior" (as published) or
    "proximal" (as some code has it: then nothing is dropped in the first update on a batch, whatever the staleness).
    Means that are not finite are dropped. Advantages that differ from token to token decide for their token. Formula
    and constant of the published form are known from second hand: a reconstruction.
    """

    delta: Any = number(1e-4, "largest mean fall in nats per token that stays", 0.0)
    reference: str = choice("behavior", "proximal", words="from which policy the fall is measured")

    @property
    def proximal(self) -> bool:
        return self.reference == "proximal"

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Whether the advantage is not negative or the sequence has not become unlikely, `[R, G, N, T or 1]`."""
        of_tokens = step.log_ratio if self.reference == "behavior" else step.drift
        fallen = -step.geometric(of_tokens.double())
        return torch.isfinite(fallen) & ((advantage >= 0) | (fallen <= per_sample(self.delta)))


@factor("verl, `compute_policy_loss_vanilla`, and OpenRLHF, `PolicyLoss`, as released")
class log_clamp(Mask):
    """Stop the gradient of tokens whose log ratio is beyond a clamp, as a clamp inside a loss does.

    Clamp with a dead gradient: c_t -> c_t [|l_t| <= limit], l = log r (token), its sum or its mean over the sequence.
    Trainers limit a live log ratio before they exponentiate it, exp(clamp(l, -limit, limit)) A: beyond the limit that
    is a constant without gradient, also where the clip would let the token come back. asyncsim keeps its weight there,
    e^20 A or e^-20 A, unless this factor is given. A detached weight is only limited by such a clamp and needs no
    factor. Stopped tokens stay in the denominators; a ratio that is not finite is stopped. In print the limit is 20,
    and 10 for means of sequences.
    """

    limit: Any = number(
        20.0, "in nats", 0.0, 20.0, above=True, remedy="give nats above 0, at most 20, where every log ratio ends"
    )
    level: str = choice("token", "sequence", "geometric", words="of what the log ratio is clamped")
    ratio: str = choice(
        "r", "u", "h", words="pi/mu, pi/pi_prox or pi_prox/mu", remedy="r is pi/mu, u is pi/pi_prox, h is pi_prox/mu"
    )

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        each = step.drift if self.ratio == "u" else _factor.log_ratio(step, self.ratio)
        return _factor.at_level(step, each, self.level).abs() <= per_sample(self.limit)


@factor("open-instruct, `rho_mask_tv_divergence`, as released (signed, h, its upper bound)")
class tv_mask(Mask):
    """Drop sequences whose estimated total variation from the behavior policy is large.

    Mask of sequences: c_t -> c_t [D_i <= high], D_i = mean_t |rho_t - 1|. rho is r = pi/mu or h = pi_prox/mu. E_mu |r -
    1| of a token is twice the total variation between both policies in its state, so D estimates twice its mean over
    the sequence. Ratios above and below 1 do not cancel, as they do in `geometric_mask`, and |rho - 1| is at most 1
    below 1: a token that has become impossible counts 1. With `signed` a far sequence loses only the tokens on which a
    step along A would go further, l_t A > 0. Summed in float64; what is not finite is dropped, and a dropped sequence
    stays in the denominators. The usual bound is ours.
    """

    high: Any = number(0.2, "largest mean of |ratio - 1| that stays", 0.0)
    signed: bool = flag("tokens that come back stay")
    ratio: str = RATIO

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Sequences with small total variation, `[R, G, N, 1]`; with `signed` also returning tokens, `[R, G, N, T]`."""
        of_tokens = _factor.log_ratio(step, self.ratio)
        distance = step.geometric(torch.expm1(of_tokens.double()).abs())
        near = distance <= per_sample(self.high)
        if not self.signed:
            return near
        # A sequence that holds a ratio of infinity, or of NaN, has no way back.
        return near | (torch.isfinite(distance) & (of_tokens * advantage <= 0))


@factor("textbook; bounds on age are a knob of every asynchronous trainer")
class drop_stale(Mask):
    """Drop tokens or full sequences above a staleness limit.

    Mask by age: c_t -> c_t [d <= limit], d the staleness in versions of the token or of the sequence's oldest one.
    Staleness is the version that is trained minus the one that drew the token; "head" is the largest over the sequence:
    that of its start where weights only move forward. Denominators still count what is dropped, unlike a queue that
    throws old samples away and fills the batch with others. A token of unknown age is dropped, with "head" its whole
    sequence, and the trace reports the share of such tokens as `unknown_staleness`. What is kept leans to short
    sequences wherever long ones are older. The usual limit is ours.
    """

    limit: Any = number(8.0, "largest staleness in versions that stays", 0.0)
    of: str = choice("head", "token", words="whose staleness decides")

    def keep(self, step: Step, advantage: Tensor) -> Tensor:
        """Tokens, or sequences with all their tokens, that are fresh enough, `[R, G, N, T or 1]`."""
        age, known = _factor.ages(step)
        young = known & (age <= per_sample(self.limit))
        if self.of == "token" or young.shape[-1] == 1:
            return young
        return (young | (step.mask == 0)).all(-1, keepdim=True)


@factor("2106.06639, section on staleness scaling (polynomial); FLSim for the rules and the division")
class staleness_weight(Factor):
    """Weight tokens by their staleness; the weight is 1 at the `average` staleness.

    Weight by age: c_t -> c_t w(d_t) / w(average), d_t the staleness of the token in versions. "constant": w = 1;
    "threshold": w = 1 up to `cutoff`, `after` beyond; "polynomial": w = (1 + d)^-exponent. The division sets the weight
    at the average age to 1; with an average above 0 fresh data counts MORE than 1 (average 1, exponent 1/2: 1.41), in
    effect a larger learning rate. So the default is 0; the published default is 1. A token of unknown age has weight 0,
    and the trace reports the share of such tokens as `unknown_staleness`.
    """

    rule: str = choice(
        "constant", "threshold", "polynomial", words="how weights fall with staleness", usual="polynomial"
    )
    exponent: Any = number(0.5, "pure number", 0.0, 1.0, remedy="0 weighs all staleness alike, 1/2 is usual")
    cutoff: Any = number(1.0, "largest staleness in versions of full weight", 0.0)
    after: Any = number(0.5, "weight beyond the cutoff, a pure number", 0.0)
    average: Any = number(0.0, "staleness in versions whose weight is 1, such as 0", 0.0)

    @staticmethod
    def joint(rule: str, cutoff: Any, after: Any, average: Any, **_: Any) -> None:
        """Require a positive weight at the average staleness, by which all weights are divided."""
        fits = rule != "threshold" or np.min(after) > 0 or np.max(average) <= np.min(cutoff)
        remedy = "keep it at most at the cutoff, or give after > 0"
        checks.require(bool(fits), "average", average, "of weight above 0", remedy)

    def factor(self, step: Step, advantage: Tensor) -> Tensor:
        """Weight of each token by its staleness, `[R, G, N, T or 1]`, 0 if its staleness is unknown."""
        age, known = _factor.ages(step)
        age = torch.where(known, age, torch.zeros_like(age)).to(step.mask.dtype)
        usual = torch.ones_like(age[:, :1, :1, :1]) * per_sample(self.average)
        return torch.where(known, self._weight(age) / self._weight(usual), torch.zeros_like(age))

    def describe(self) -> dict[str, Any]:
        """Settings in the header of a run, only those that the weighting rule uses."""
        used = {name: getattr(self, name) for name in _USED[self.rule]}
        return {"factor": plugins.name_of(self), "rule": self.rule, **used}

    def _weight(self, age: Tensor) -> Tensor:
        if self.rule == "constant":
            return torch.ones_like(age)
        if self.rule == "threshold":
            return torch.where(age <= per_sample(self.cutoff), torch.ones_like(age), per_sample(self.after))
        return torch.exp(-per_sample(self.exponent) * torch.log1p(age))
