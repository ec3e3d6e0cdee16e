"""PPO and other methods with a clip: a token whose ratio has left a band along its advantage has no gradient."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, penalties
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.base.parts import Knob, choice, number
from asyncsim.fusing.tape import none
from asyncsim.methods import _weights
from asyncsim.methods._estimator import CAP, CRITIC, ENTROPY, HIGH, LOW, estimator, method
from asyncsim.methods._weights import Clip, Weight, at_most, band, clipped, movable, zero_outside
from asyncsim.step import ratios
from asyncsim.step.step import Step

_TEXTS = checks.table(__file__, "texts.toml")["clipped"]

_SHARE = number(2e-4, "part of the step's tokens, 0.0002 in print", 0.0, 1.0, above=True)
_ROUNDING = 1e-12
"""A log ratio, or a difference of covariances, that is 0 but for rounding."""


def _geometric(step: Step, **_: Any) -> Tensor:
    """Geometric means of the token ratios to the anchor, `[R, G, N, 1]`."""
    return ratios.usable(step.geometric(step.anchored))


@method("1707.06347, equations 7 and 9; 1912.09729 for the dual clip", anchored="behavior")
def ppo_clip(
    low: Any = LOW,
    high: Any = HIGH,
    *,
    critic: float = CRITIC.but(0.0),
    entropy: float = ENTROPY,
    dual: Any = number(None, low=1.0, above=True, optional=True, **_TEXTS["dual"]),
) -> Weight:
    """PPO: the token ratio to the chosen anchor policy is clipped.

    Clipped surrogate: c_it = rho_it A_i where the clip is open, 0 where it is closed. The clip closes for A > 0 above 1
    + high and for A < 0 below 1 - low. rho is the token ratio to `anchor`: "behavior" (the policy that generated the
    token) or "proximal" (the weights at the start of the batch's training). In the first update of a batch the latter
    is independent of staleness (`estimator/ppo-gate`). For A < 0 a ratio above 1 has no bound, unless `dual` is given:
    the objective is then max(min(rho A, clip(rho) A), dual A) for A < 0, which closes above `dual`. With a critic,
    critic (V - target)^2 is descended beside it, neither its values nor its error clipped. For actor-critic use
    `gae(normalize=True)`.
    """
    return Clip(low, high) if dual is None else _weights.DualClip(low, high, dual)


@method(
    "2402.03300, equations 3 and 4",
    advantage=advantages.group_std,
    aggregator="sequence_mean",
    anchored="behavior",
    penalties=lambda kl, **_: () if kl == 0.0 else (penalties.k3(kl),),
)
def grpo(
    low: Any = LOW,
    high: Any = HIGH,
    *,
    critic: float = CRITIC.but(0.0),
    entropy: float = ENTROPY,
    kl: Any = number(0.0, "price of one nat in units of reward, 0 for none", 0.0),
) -> Weight:
    """GRPO: group-standardized rewards, clipped token ratios, sequence-mean aggregation and an optional KL penalty.

    Group relative policy optimization: A_i = (r_i - mean) / (std + 1e-6), c as in `ppo_clip`, averaged per sequence.
    Population standard deviation over the group. With `kl` the paper's KL term is descended: it adds -kl (1 -
    pi_ref/pi) to the weight of every token, clipped or not (`penalties.k3`). Without (the default), no KL term;
    `kl_coef` of a task puts a penalty into the reward. Critic and entropy bonus do not belong to the paper's; `kl`
    needs a policy with a reference.
    """
    return Clip(low, high)


@method(
    "2503.14476, equation 8",
    advantage=advantages.group_std,
    anchored="behavior",
    drop_equal=True,
    on_policy="policy gradient of the groups that are kept",
)
def dapo(low: Any = LOW, high: Any = HIGH.but(0.28)) -> Weight:
    """DAPO: PPO's clip with a higher upper bound and token-mean aggregation; groups of equal rewards are dropped.

    Decoupled clip and dynamic sampling: A_i = (r_i - mean) / (std + 1e-6), c_it = rho_it A_i where the clip is open.
    The clip closes for A > 0 above 1 + high and for A < 0 below 1 - low. Groups whose rewards are all equal leave the
    step before its tokens are counted. Their A is 0, but otherwise they would count in the denominator. They are
    dropped, not drawn again; refilling belongs to the system that generates, where it costs staleness. No KL term.
    """
    return Clip(low, high)


@estimator(
    "2507.18071, equations 5 and 13",
    level="geometric",
    shape="1",
    advantage=advantages.group_std,
    aggregator="sequence_mean",
    anchored="behavior",
    applied=_geometric,
    flags={"banded": True},
)
def gspo(step: Step, a: Tensor, low: Any = LOW.but(3e-4), high: Any = HIGH.but(4e-4)) -> Tensor:
    """GSPO: PPO's clip applied to the geometric mean of a sequence's token ratios.

    Group sequence policy optimization: c_it = s_i A_i where the clip of s is open, s_i = (prod_t rho_it)^(1/T_i). grad
    min(s A, clip(s) A) = s A mean_t grad log pi where the clip (for A > 0 above 1 + high, for A < 0 below 1 - low) is
    open: with the sequence mean that is c = s A on every token. The form with s_it = sg(s_i) pi/sg(pi) per token has
    the same c, and allows for advantages that differ from token to token. s is not an importance weight. Bands are
    narrow because the mean over T tokens is: a large share of clipped sequences is normal.
    """
    ratio = _geometric(step)
    return clipped(ratio, ratio, a, *band(low, high))


@estimator(
    "2507.20673, equation 4",
    level="geometric",
    advantage=advantages.group_std,
    aggregator="sequence_mean",
    anchored="behavior",
    applied=_geometric,
)
def gmpo(
    step: Step,
    a: Tensor,
    low: Any = number(0.4, low=0.0, **_TEXTS["low"]),
    high: Any = number(0.4, low=0.0, **_TEXTS["high"]),
) -> Tensor:
    """GMPO: the geometric mean of token ratios, each of which is clipped in log space.

    Geometric-mean policy optimization: c_it = exp(mean_k lbar_ik) A_i k_it. lbar = min(l, high) for A > 0 and max(l,
    -low) for A < 0, l the log ratio to the anchor; k = 1 for the tokens that this leaves as they are, else 0. The
    objective is (prod_t |min(rho A, clip(rho) A)|)^(1/T) sign(A) with rho clipped to [e^-low, e^high]; its gradient has
    the factor exp(mean lbar) A / T on every token whose log ratio is not cut off. The band is one of log ratios: 0.4
    allows [0.67, 1.49], not [0.6, 1.4]. Where advantages differ from token to token, each token is clipped by the sign
    of its own.
    """
    log_ratio, up = step.anchored, a > 0
    lowest, highest = -per_sample(low), per_sample(high)
    inside = torch.where(up, log_ratio <= highest, log_ratio >= lowest)
    limited = torch.where(up, log_ratio.clamp(max=highest), log_ratio.clamp(min=lowest))
    return zero_outside(ratios.usable(step.geometric(limited)) * a, inside)


@estimator("2512.06547", applied=lambda step, **_: ratios.usable(step.log_ratio))
def a3po(step: Step, a: Tensor, low: Any = LOW, high: Any = HIGH) -> Tensor:
    """A-3PO: decoupled PPO whose proximal log-probs are interpolated according to staleness, instead of computed.

    Approximated proximal policy: c_it = r_it A_i where the clip of r_it^(1/d) is open, 0 where it is closed. d is the
    staleness of the token in versions. The snapshot log pi_prox = alpha log pi + (1 - alpha) log mu with alpha = 1 -
    1/d is detached, so that u = pi/pi_prox = r^(1/d) and h = pi_prox/mu = r^(1 - 1/d) in h min(u A, clip(u) A), whose
    gradient is h u A = r A grad log pi where the clip of u is open. With steady logits u is too large by one factor for
    all actions (`estimator/a3po-interpolation`). On r the band is [(1 - low)^d, (1 + high)^d]: it widens with
    staleness. For d <= 1 (alpha = 0) it is `ppo_clip` anchored at behavior. Tokens of unknown staleness are left out,
    their share in the step is `unknown_staleness` in the trace.
    """
    age = step.staleness
    unknown = torch.isnan(age)
    step.statistics["unknown_staleness"] = (step.share * unknown.to(step.share)).sum((1, 2, 3))
    drift = ratios.usable(step.log_ratio / age.clamp(min=1.0).to(step.log_ratio))
    weight = clipped(ratios.usable(step.log_ratio), drift, a, *band(low, high))
    return weight if none(unknown) else torch.where(unknown, torch.zeros_like(weight), weight)


@estimator("2110.00641, equation 6; 2505.24298 for language models", anchor="proximal")
class decoupled_ppo(_weights.TruncatedClip):
    """Decoupled PPO: a clip around the policy at the start of the batch, times that policy's ratio to behavior.

    Two policies in place of one: c_it = min(h_it, cap) u_it A_i where the clip of u is open, 0 where it is closed. u =
    pi/pi_prox, pi_prox the weights at the start of the batch's training; h = pi_prox/mu, the detached correction of
    staleness. The gradient of h min(u A, clip(u) A) is h u A grad log pi where the clip, for A > 0 above 1 + high and
    for A < 0 below 1 - low, is open. The clip sees what the batch's own updates have changed and no staleness; h sees
    the staleness. In the first update of a batch u = 1 and c = min(h, cap) A. Beyond the cap AReaL drops tokens.
    """

    low: Any = LOW
    high: Any = HIGH
    cap: Any = CAP.but(5.0, optional=True)
    beyond: str = choice("truncate", "drop", words="what happens to tokens above the cap")

    def carried(self, step: Step) -> Tensor:
        """Ratio h = pi_prox/mu of each token, truncated at `cap`, or set to 0 above it, `[R, G, N, T]`."""
        if self.cap is not None and self.beyond == "truncate":
            return super().carried(step)
        weight = ratios.usable(step.behavior_log_ratio)
        return weight if self.cap is None else zero_outside(weight, weight <= per_sample(self.cap))


@dataclass(frozen=True)
class Cispo(Weight):
    """Score weight c = clip(rho) A of CISPO; see `cispo`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True
    banded: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        lowest, highest = band(self.low, self.high)
        return ratios.usable(step.anchored).clamp(min=lowest).clamp(max=highest)


@dataclass(frozen=True)
class CispoWith(Cispo):
    """Score weight c = clip(rho) min(h, cap) A where the mask is open, else 0; None: no factor of h, or no mask."""

    cap: Any = field(default=None, metadata=MARK)
    mask_low: Any = field(default=None, metadata=MARK)
    mask_high: Any = field(default=None, metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Clipped token ratios to the anchor policy times the truncated rollout weight, `[R, G, N, T]`."""
        weight = super().applied(step)
        return weight if self.cap is None else weight * at_most(ratios.usable(step.behavior_log_ratio), self.cap)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        if self.cap is not None:
            # A method's anchor can be replaced after it was made.
            _once(step.anchor)
        if self.mask_low is None:
            return super().score_weight(step, advantage)
        bounds = band(self.mask_low, self.mask_high)
        return clipped(self.applied(step), ratios.usable(step.anchored), advantage, *bounds)

    def describe(self) -> dict[str, Any]:
        """Settings for the header of a run, without those that are None."""
        return {name: value for name, value in super().describe().items() if value is not None} | {"weight": "cispo"}


def _once(anchor: str) -> None:
    bound, remedy = "left out: the ratio contains that weight already", "use anchor='proximal', cap=None, or high"
    checks.require(anchor != "behavior", "cap", "a rollout weight beside anchor='behavior'", bound, remedy)


def _bounds(name: str, mask: Any) -> tuple[Any, ...]:
    if mask is None:
        return ()
    remedy = "write mask=(0.2, 0.28), how far below and above 1 a ratio may be"
    checks.require(isinstance(mask, (tuple, list)) and len(mask) == 2, name, mask, "None or two numbers", remedy)
    below, above = mask
    return knob("mask below", below, remedy, 0.0), knob("mask above", above, remedy, 0.0)


@method(
    "2506.13585, equations 4 and 5; 6 and 7 for the mask",
    advantage=advantages.group_std,
    anchored="behavior",
    order="low high anchor cap advantage aggregator mask",
    joint=lambda anchor, cap, **_: None if cap is None else _once(anchor),
)
def cispo(
    low: Any = number(1.0, "the lower bound is 1 - low", 0.0, remedy="the lower bound is 1 - low, open from 1 on"),
    high: Any = HIGH.but(4.0),
    cap: Any = CAP.but(None, optional=True),
    mask: Any = Knob(
        None,
        "None, or two numbers >= 0: distances below and above 1, >= 0, or None",
        _bounds,
        kind="tuple[Number, Number] | None",
    ),
) -> Weight:
    """CISPO: a clipped importance weight multiplies the score, so that no token loses its gradient.

    Clipped importance-sampling weight: c_it = clip(rho_it, 1 - low, 1 + high) A_i, the weight detached. PPO drops a
    token outside its band. CISPO keeps it with the weight of the bound, on both sides and for both signs of A. The
    lower side is open by default (low >= 1): with low = 0.2 tokens that have become improbable would be raised to the
    weight 0.8. With the anchor "proximal" rho sees only what the batch's own updates have changed; `cap` then
    multiplies by the truncated rollout weight min(pi_prox/mu, cap). With `mask` = (below, above) the general form, c_it
    = clip(rho_it, 1 - low, 1 + high) A_i M_it: M = 0 for A > 0 where rho > 1 + above and for A < 0 where rho < 1 -
    below, else 1. A mask inside an open clip, `cispo(1.0, 1e9, mask=(0.2, 0.2))`, is `ppo_clip(0.2, 0.2)`. A cap beside
    the anchor "behavior" is refused.
    """
    return Cispo(low, high) if cap is None and not mask else CispoWith(low, high, cap, *(mask or ()))


def _some(lower: Any, upper: Any, **_: Any) -> None:
    ends = "below upper, so that the band holds something"
    checks.require(bool(np.all(np.less(lower, upper))), "lower", lower, ends, "use 1 and 5")


@estimator(
    "2505.22617, Clip-Cov; verl, `compute_policy_loss_clip_cov`, for the order of both clips",
    advantage=advantages.group_std,
    anchored="behavior",
    joint=_some,
    on_policy="policy gradient with fewer tokens of high covariance",
    status="reconstruction",
)
class clip_cov(Clip):
    """Clip-Cov: PPO's clip, and no gradient for some tokens with a high covariance of advantage and log-prob.

    PPO's clip without a share of the tokens of high covariance: c_t = c_PPO(rho_t) (1 - share / m [v_t in band]).

    Here v_t = (A_t - mean A)(log pi_t - mean log pi), means over the tokens of the step: tokens that are likely and
    good, or unlikely and bad, make the policy surer, and lose it entropy. Of those with lower < v < upper on which
    PPO's clip is open, a share of m among all tokens, the release draws share x tokens at random (one at least) and
    stops their gradient. Here every one of them has the mean over that draw, 1 - share / m, at least 0: no draw, same
    mean direction. A reconstruction in this. Denominators count what is stopped.
    """

    share: Any = _SHARE
    lower: Any = number(1.0, "covariance from which tokens may be stopped, in units of advantage times nats")
    upper: Any = number(5.0, "covariance up to which tokens may be stopped, in units of advantage times nats")
    low: Any = LOW
    high: Any = HIGH

    selects = True
    partly = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return self._kept(step, advantage).mul_(super().score_weight(step, advantage))

    def _kept(self, step: Step, advantage: Tensor) -> Tensor:
        """1 outside the covariance band; inside 1 - share / (mass of the band), at least 0."""
        lowest, highest = band(self.low, self.high)
        together = _covariance(step, advantage)
        inside = ((together > per_sample(self.lower)) & (together < per_sample(self.upper))).to(together.dtype)
        del together
        inside.mul_(movable(self.applied(step), advantage, lowest, highest))
        mass = (step.share * inside).sum((1, 2, 3), keepdim=True)
        # A number divided by a tensor is not, to the last bit, the same in a tensor of such numbers.
        dropped = per_sample(self.share) * torch.where(mass > 0, mass, torch.ones_like(mass)).reciprocal()
        return inside.mul_(dropped.clamp(max=1.0)).neg_().add_(1.0)


@estimator(
    "2505.22617, KL-Cov; verl, `compute_policy_loss_kl_cov`, for the penalty, whose number of tokens is rounded down",
    advantage=advantages.group_std,
    anchored="behavior",
)
class kl_cov(Weight):
    """KL-Cov: unclipped token ratios, and a KL penalty on tokens with the highest covariance of advantage and log-prob.

    Ratio without a clip, and a pull to the anchor on few tokens: c_t = rho_t A_t - coefficient sign(l_t) [v_t >= q].
    v_t = (A_t - mean A)(log pi_t - mean log pi), means over the tokens of the step, and q the largest number that at
    least `share` of them reach: one token at least. Of tokens equal to it, as tables have many, each is pulled with the
    mean over all orders in which as many could be taken. The pull is the slope of the released penalty coefficient
    |l_t|, l = log rho, whose size does not fall as the token comes back. It is 0 at l = 0, and so in the first update
    on a batch with the anchor "proximal". Where a log-prob is not finite nothing is selected.
    """

    share: Any = _SHARE
    coefficient: Any = number(1.0, "price of a nat in units of reward, 0 for none", 0.0)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored = True

    def applied(self, step: Step) -> Tensor:
        return ratios.usable(step.anchored)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        pull = self._selected(step, advantage)
        pull.mul_(step.anchored.sign()).mul_(per_sample(self.coefficient))
        return (self.applied(step) * advantage).sub_(pull)

    def _selected(self, step: Step, advantage: Tensor) -> Tensor:
        """Selected fraction of each token: highest covariance, and away from the anchor; `[R, G, N, T]`."""
        together, away = _covariance(step, advantage), step.anchored.abs() > _ROUNDING
        flat, share = together.flatten(1), step.share.flatten(1)
        held, least = self._held(step, flat, share)
        # Of equal ones it does not matter which are selected: each is in part.
        edge = _ROUNDING * (1.0 + least.abs())
        above, least = flat > least + edge, flat >= least - edge
        mass = [(share * which).sum(1, keepdim=True, dtype=torch.float64) for which in (above, least)]
        part = ((held - mass[0]) / (mass[1] - mass[0])).clamp(max=1.0).to(flat.dtype)
        return (part * least).masked_fill_(above, 1.0).reshape(away.shape).mul_(away)

    def _held(self, step: Step, flat: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Selected mass, in units of tokens, and its minimum covariance, `[R, 1]`; NaN if any one is not finite."""
        wanted = torch.as_tensor(self.share, dtype=torch.float64).reshape(-1, 1)
        rarest = torch.where(share > 0, share, torch.full((), torch.inf, dtype=share.dtype)).amin(1, keepdim=True)
        # So many tokens hold the share that is wanted, whichever they are: no need to sort the others.
        count = (wanted / rarest.double()).nan_to_num(0.0, posinf=0.0).ceil().max().item() + 1
        nowhere = torch.full((), -torch.inf, dtype=flat.dtype)
        largest, place = torch.where(share > 0, flat, nowhere).topk(min(int(count), flat.shape[1]))
        held = share.gather(1, place).double().cumsum(1)
        last = (held >= wanted - _ROUNDING).to(torch.int8).argmax(1, keepdim=True)
        least = largest.double().gather(1, last)
        broken = ((share > 0) & torch.isnan(flat)).any(1, keepdim=True)
        if step.unit is None:
            wanted = held.gather(1, last)
        else:
            # Of cells of several samples, by whole tokens where there are such.
            tokens = (wanted / step.unit - _ROUNDING).ceil() * step.unit
            wanted = torch.where(step.unit > 0, tokens, wanted.expand_as(tokens))
        return wanted, torch.where(broken, torch.full_like(least, torch.nan), least)


def _covariance(step: Step, advantage: Tensor) -> Tensor:
    """(A_t - mean A)(log pi_t - mean log pi), `[R, G, N, T]`, means over the step's tokens; NaN on masked tokens.

    Where a log-prob that counts is not finite, no token of the replicate has a covariance.
    """
    live = step.mask > 0
    # One after the other, and in place: few arrays of the step's size at one time.
    wide = _centered(step, live, advantage.expand(step.mask.shape))
    wide.mul_(_centered(step, live, step.current["log_prob"]))
    return torch.where(live, wide, torch.full((), torch.nan, dtype=wide.dtype, device=wide.device))


def _centered(step: Step, live: Tensor, each: Tensor) -> Tensor:
    kept = torch.where(live, each, torch.zeros((), dtype=step.mask.dtype, device=step.mask.device))
    return kept.sub_((step.share * kept).sum((1, 2, 3), keepdim=True))
