"""Importance sampling: ratios of tokens, prefixes and sequences, full, truncated, normalized or masked."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages, factors
from asyncsim.advantages._traces import next_generated
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.base.parts import choice, handed_on, number
from asyncsim.methods._estimator import CAP, HIGH, LOW, method
from asyncsim.methods._weights import NoRatio, Ratio, TruncatedClip, Weight, at_least, at_most
from asyncsim.step import ratios
from asyncsim.step.step import Step

_TEXTS = checks.table(__file__, "texts.toml")["importance"]


@dataclass(frozen=True)
class BoundedRatio(Weight):
    """Score weight c = max(min(ratio, cap), floor) A with the ratio of token or sequence, or its geometric mean."""

    level: str
    cap: Any = field(metadata=MARK)
    floor: Any = field(default=0.0, metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        return at_least(at_most(ratios.usable(_at_level(step, self.level)), self.cap), self.floor)


@dataclass(frozen=True)
class NormalizedRatio(Weight):
    """Score weight c = w A / mean(w), w = min(ratio, cap), with the mean over the step's tokens or sequences."""

    level: str
    cap: Any = field(metadata=MARK)
    normalize: str = "tokens"

    def truncated(self, step: Step) -> Tensor:
        return at_most(ratios.usable(_at_level(step, self.level)), self.cap)

    def applied(self, step: Step) -> Tensor:
        """Truncated ratios divided by their mean, `[R, G, N, T or 1]`; 0 in a replicate whose mean is not finite."""
        weight = self.truncated(step)
        mean = self._mean(step, weight)
        step.statistics["weight_before_normalization"] = mean[:, 0, 0, 0]
        step.statistics["normalization_broken"] = (~torch.isfinite(mean))[:, 0, 0, 0].to(mean.dtype)
        sound = torch.isfinite(mean) & (mean > 0)
        return torch.where(sound, weight / torch.where(sound, mean, torch.ones_like(mean)), 0.0)

    def _mean(self, step: Step, weight: Tensor) -> Tensor:
        """Mean weight of the step, `[R, 1, 1, 1]`; 0 for an empty step."""
        if self.normalize == "tokens":
            share = step.share
        else:
            mass = step.mass * (step.lengths > 0)
            total = mass.sum((1, 2), keepdim=True)
            # Each sequence spreads its mass over its own tokens.
            per_token = mass / (torch.where(total > 0, total, 1.0) * step.lengths.clamp(min=1.0))
            share = per_token.unsqueeze(-1) * step.mask
        return torch.where(share > 0, share * weight, 0.0).sum((1, 2, 3), keepdim=True)


@dataclass(frozen=True)
class NormalizedBounds(NormalizedRatio):
    """Score weight c = w A / mean(w) with w = max(min(ratio, cap), floor)."""

    floor: Any = field(default=0.0, metadata=MARK)

    def truncated(self, step: Step) -> Tensor:
        return at_least(super().truncated(step), self.floor)


@dataclass(frozen=True)
class GroupMass(Weight):
    """Score weight c = W A min(1, cap / m) with the sequence ratio W and its mean m over the group."""

    cap: Any = field(metadata=MARK)
    level: ClassVar[str] = "sequence"  # type: ignore[misc]
    grouped: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        weight, cap = ratios.usable(step.sequence(step.log_ratio)), per_sample(self.cap)
        mass = step.mass.unsqueeze(-1)
        total = mass.sum(2, keepdim=True)
        # A group of which nothing is left in the step counts for nothing, whatever its mean.
        mean = torch.where(total > 0, (mass * weight).sum(2, keepdim=True) / total, torch.ones_like(total))
        step.statistics["group_mass"] = step.mean(mean[..., 0].expand(weight.shape[:3]))
        return weight * torch.clamp(cap / mean, max=1.0)


@dataclass(frozen=True)
class PrefixRatio(Weight):
    """Score weight c_t = P_t A_t, where P_t is the product of the token ratios up to and including t."""

    level: ClassVar[str] = "prefix"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        return ratios.usable(step.log_ratio.cumsum(-1))


@dataclass(frozen=True)
class PerDecision(Weight):
    """Score weight c_t = sum_{k>=t} P_k (A_k - A_{k+1}): each reward times the ratio of the tokens up to it."""

    level: ClassVar[str] = "prefix"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        return ratios.usable(step.sequence(step.log_ratio))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Sum of later rewards, each times its prefix ratio; a sequence's advantage counts as a final reward."""
        if advantage.shape[-1] == 1:
            return self.applied(step) * advantage
        ended, mask = step.batch.ended, step.mask
        several = ended is not None and bool((ended & (next_generated(mask, mask) > 0)).any())
        bound, remedy = "given one episode in each row", "use tasks with trajectory='episode'"
        checks.require(not several, "method", "per_decision_is", bound, remedy)
        to_go = torch.where(step.mask > 0, advantage, torch.zeros_like(advantage))
        paid = torch.where(mask > 0, to_go - next_generated(to_go, mask), torch.zeros_like(to_go))
        weighted = ratios.usable(step.log_ratio.cumsum(-1)) * paid
        return weighted.flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class BoundedClip(TruncatedClip):
    """Score weight c = max(min(h, cap), floor) u A where PPO's clip on u = pi/pi_prox is open, with h = pi_prox/mu."""

    floor: Any = field(default=0.0, metadata=MARK)

    def carried(self, step: Step) -> Tensor:
        return at_least(super().carried(step), self.floor)


def _at_level(step: Step, level: str) -> Tensor:
    """Log ratio to behavior of the tokens or the sequence, or its mean over the sequence, `[R, G, N, T or 1]`."""
    if level == "token":
        return step.log_ratio
    return step.sequence(step.log_ratio) if level == "sequence" else step.geometric(step.log_ratio)


_DEFAULTS = {"sequence": (8.0, "sequence_mean"), "token": (2.0, "token_mean"), "geometric": (2.0, "sequence_mean")}
_FLOOR = number(None, low=0.0, high=1.0, optional=True, **_TEXTS["floor"])
_SAYS = "which ratio multiplies the score"
_KEEPS = "which ratio multiplies what is kept"
# What a mask reads the mask itself checks.
_LEAST = handed_on(0.5, "smallest ratio that is kept", "in [0, 1]")
_MOST = handed_on(2.0, "largest ratio that is kept", ">= 1")
_RATIO = handed_on("r", "pi/mu or pi_prox/mu", '"r" or "h"')


@method("textbook", advantage=advantages.leave_one_out, aggregator="sequence_sum", shape="T or 1")
def full_is(level: str = choice("token", "sequence", words=_SAYS, usual="sequence")) -> Weight:
    """Untruncated importance sampling: the advantage is multiplied by the ratio of the sequence or of the token.

    Importance sampling without truncation: c_it = W_i A_i (sequence) or r_it A_i (token). r_it = pi/mu of one token,
    W_i = prod_t r_it. The sequence form is unbiased for outcome rewards on full support (`estimator/truncation-bias`).
    The token form ignores prefix and suffix and is biased for more than one token (`estimator/token-is-bias`). Log
    ratios are limited to +-20 before they are exponentiated: where all of a step lie beyond, all its weights are equal.
    """
    return Ratio(level)


@method(
    "Precup, Sutton and Singh 2000 for products over prefixes",
    advantage=advantages.leave_one_out,
    aggregator="sequence_sum",
)
def prefix_is() -> Weight:
    """Importance sampling of prefixes: every token is weighted by the product of the ratios up to it.

    Importance sampling of states and actions, not of continuations: c_t = P_t A_t, P_t = prod_{k<=t} r_k. grad J =
    E_pi[sum_t A^pi_t grad log pi_t] and E_pi[f(y_1..y_t)] = E_mu[P_t f(y_1..y_t)], so it is exact where A_t is what the
    CURRENT policy would earn from there (a critic of pi). With returns that mu's continuation earned it is biased: for
    these use `per_decision_is`, or the sequence ratio. The log ratio of a prefix is limited to +-20 before it is
    exponentiated.
    """
    return PrefixRatio()


def _undiscounted(advantage: Any, **_: Any) -> None:
    for rate in ("discount", "trace"):
        # What has neither sums without one; what is no advantage at all `Method` refuses.
        value = getattr(advantage, rate, 1.0)
        remedy = "differences of discounted sums are no rewards; use returns_to_go(1.0)"
        checks.require(value == 1.0, f"{rate} of the advantage", value, "1", remedy)


@method(
    "Precup, Sutton and Singh 2000, section 3",
    advantage=advantages.returns_to_go,
    aggregator="sequence_sum",
    joint=_undiscounted,
    raises="and an advantage with a discount or a trace below 1",
)
def per_decision_is() -> Weight:
    """Per-decision importance sampling: every reward is weighted by the ratio of the tokens up to it.

    Importance sampling by decisions: c_t = sum_{k>=t} P_k rew_k, P_k = prod_{j<=k} r_j. J = E_mu[sum_k P_k rew_k],
    since what follows k does not change rew_k, and grad P_k = P_k sum_{t<=k} grad log pi_t: exact. The advantage gives
    the rewards, rew_k = A_k - A_{k+1} with A = 0 behind the end. So sums to go give the formula above. One advantage
    per sequence counts as paid at the end, which is `full_is()` with every baseline. Sums must be undiscounted, and a
    row must hold one episode. Log ratios of prefixes are limited to +-20 before they are exponentiated.
    """
    return PerDecision()


@method(
    "2602.17616 (sequence form); verl, documentation of rollout correction, for the normalization; slime "
    "(`tis_clip_low`), NeMo-RL and OpenRLHF for the floor; AReaL for the geometric mean as a weight",
    aggregator=lambda level, **_: _DEFAULTS[level][1],
    shape="T or 1",
)
def truncated_is(
    level: str = choice("token", "sequence", "geometric", words=_SAYS, usual="sequence"),
    cap: Any = CAP.but(None, optional=True),
    *,
    normalize: str = choice("none", "tokens", "sequences", words="over what weights are averaged"),
    floor: Any = _FLOOR,
) -> Weight:
    """Truncated importance sampling: the ratio of the sequence or token, truncated at `cap`, times the advantage.

    Importance sampling with the ratio truncated from above and detached: c = min(w, cap) A. Level "sequence": w = W_i,
    cap 8, sequence-mean. Level "token": w = r_it, cap 2, token-mean. Bias of the gradient: -E_mu[(w - cap)_+ A grad log
    pi] (`estimator/truncation-bias`). Level "geometric": w = s_i = exp(mean_t log r_it), cap 2, sequence-mean; s is no
    importance weight, E_mu[s] is not 1 (`estimator/geometric-ratio`). With a floor, c = max(min(w, cap), floor) A:
    samples that have become improbable count at least that much, which adds the bias E_mu[(floor - w)_+ A grad log pi].
    With `normalize`, c = min(w, cap) A / m: m is the mean of the truncated weights over all tokens of the whole step
    ("tokens"), or over its sequences of their token means ("sequences"). A common factor of the weights cancels, and
    samples of a step are coupled. The trace has m; where it is not finite, c = 0.
    """
    cap = _DEFAULTS[level][0] if cap is None else cap
    if normalize != "none":
        own = level, cap, normalize
        return NormalizedRatio(*own) if floor is None else NormalizedBounds(*own, floor)
    if floor is None and level != "geometric":
        return Ratio(level, cap)
    return BoundedRatio(level, cap, 0.0 if floor is None else floor)


@method(
    "slime and verl, documentation of truncated importance sampling; 1707.06347, equation 7, for c_PPO; slime "
    "(`tis_clip_low`), NeMo-RL and OpenRLHF for the floor",
    anchor="proximal",
)
def three_policy_tis(cap: Any = CAP, low: Any = LOW, high: Any = HIGH, *, floor: Any = _FLOOR) -> Weight:
    """Truncated weights for staleness and for engine mismatch, times PPO's clip for updates within a batch.

    Truncated importance sampling between three policies: c_t = min(h_t, cap) c_PPO(u_t). r = h u with h = pi_prox/mu
    (staleness and engine mismatch, constant over the updates on a batch) and u = pi/pi_prox (what those updates
    changed); c_PPO = u A where the clip of u to [1 - low, 1 + high] is open, 0 where it is closed. In the first update
    on a batch u = 1 and c = min(r, cap) A. h is detached and truncated: tokens above the cap keep their gradient. With
    `factors.token_mask(low, high, "h")` and a cap at its upper bound this is IcePop with PPO's clip.
    """
    return TruncatedClip(cap, low, high) if floor is None else BoundedClip(cap, low, high, floor)


@method("2602.17616", advantage=advantages.opob, aggregator="sequence_mean", shape="1")
def vcpo(cap: Any = CAP.but(8.0)) -> Weight:
    """VCPO: truncated sequence ratios and off-policy optimal baseline; the link `ess_step` scales the learning rate.

    Variance-controlled policy optimization, the loss: c_it = min(W_i, cap) A_i with A_i = r_i - b, b as in `opob`. W_i
    = prod_t pi/mu is detached, so that sequences above the cap keep their gradient. Two of its three parts are here.
    The third scales the step by the ESS of the untruncated ratios and is an update link: behind `adam` put
    `updates.ess_step("sqrt")`, behind `sgd` `updates.ess_step("linear")`. No clip. Assumes a policy with scores of
    single samples.
    """
    return Ratio("sequence", cap)


@method(
    "2610.01896, abstract",
    advantage=advantages.group_std,
    aggregator="sequence_mean",
    shape="1",
    status="reconstruction",
)
def gmc_grpo(cap: Any = number(2.0, "largest mean sequence ratio of a group", 1.0)) -> Weight:
    """Group-mass capping: sequence ratios of a group are scaled down together if their mean exceeds a cap.

    Group-mass capping: c_it = W_i A_i min(1, cap / m), m = sum_j mass_j W_j the mean sequence ratio of the group, W_i =
    prod_t pi/mu, detached. The weights of a group add up to at most cap N, so the update of a group is at most cap max
    |A| |score| long whatever the delay. Ratios inside a group keep their proportions, where a cap for each sample would
    flatten them. E_mu W = 1, so m goes to 1 and the bias to 0 as groups grow. The trace has m before the cap as
    `group_mass`. A reconstruction: only the abstract and a summary could be read; the form and the cap are ours.
    """
    return GroupMass(cap)


@method(
    "2512.16144, equation 1; 2510.18855 for the first form",
    factors=lambda low, high, ratio: (factors.token_mask(low, high, ratio),),
)
def icepop(low: Any = _LEAST, high: Any = _MOST, ratio: str = _RATIO) -> Weight:
    """IcePop, masked importance sampling: the weight is the token ratio inside a band, and 0 outside of it.

    Masked importance sampling of tokens: c_t = r_t A [low <= rho_t <= high]. rho is r = pi/mu, or h = pi_prox/mu, which
    tests staleness and engine mismatch alone (then c_t = h_t u_t A inside the band, without a clip on u = pi/pi_prox).
    This is the later form, of one ratio and a token mean; IcePop as first printed masks h, clips u and averages per
    sequence: `three_policy_tis(cap=high, aggregator="sequence_mean").replace( factors=(factors.token_mask(low, high,
    "h"),))`. Denominators count dropped tokens. See `factors.token_mask` for the mask alone.
    """
    return Ratio("token")


@method(
    "verl, documentation of rollout correction, masked importance sampling of sequences",
    shape="T or 1",
    factors=lambda low, high, ratio, **_: (factors.sequence_mask(low, high, ratio),),
)
def sequence_mis(
    low: Any = _LEAST,
    high: Any = _MOST,
    weight: str = choice("sequence", "token", "none", words=_KEEPS),
    ratio: str = _RATIO,
) -> Weight:
    """Masked importance sampling of sequences: the weight is the sequence ratio inside a band, and 0 outside of it.

    Masked importance sampling of sequences: c_t = w A [low <= W_i <= high], w = W_i, or r_t under the same mask. W_i =
    prod_t r_t. The mask cuts what truncation would cap and also the weights near 0: bias -E_mu[W A grad log pi; W
    outside] with w = W_i. Denominators count dropped sequences. See `factors.sequence_mask` for the mask alone.
    """
    return NoRatio() if weight == "none" else Ratio(weight)


def _weighted(weight: str, cap: Any, **_: Any) -> None:
    remedy = "say weight='token' or 'sequence'"
    checks.require(cap is None or weight != "none", "cap", cap, "left out without a weight", remedy)


@method(
    "verl, documentation of rollout correction, geometric rejection sampling",
    shape="T or 1",
    joint=_weighted,
    factors=lambda low, high, ratio, **_: (factors.geometric_mask(low, high, ratio),),
)
def geometric_rs(
    low: Any = _LEAST.but(0.999),
    high: Any = _MOST.but(1.001),
    weight: str = choice("none", "token", "sequence", words=_KEEPS),
    cap: Any = CAP.but(None, optional=True),
    ratio: str = _RATIO,
) -> Weight:
    """Rejection sampling of sequences by the geometric mean of their token ratios.

    Rejection by the geometric mean: c_t = w A [low <= s_i <= high] with s_i = exp(mean_t log r_t). w = 1 ("none"),
    min(r_t, cap) ("token") or min(W_i, cap) ("sequence"). s_i does not shrink or grow with the length as W_i does, but
    it is no importance weight. Under the published band a little staleness rejects every sequence: the gradient is then
    0 and `kept_tokens` of the trace is 0. Denominators count what is rejected. See `factors.geometric_mask` for the
    mask alone. The usual cap of a weight is 2; there is none without.
    """
    return NoRatio() if weight == "none" else Ratio(weight, 2.0 if cap is None else cap)
