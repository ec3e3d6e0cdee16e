"""Smooth weights and trust regions: weights that fall smoothly, or are 0 outside a trust region of probabilities."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, penalties
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import number
from asyncsim.methods._estimator import CAP, estimator
from asyncsim.methods._method import Penalty
from asyncsim.methods._weights import at_most, bernoulli_kl, by_sign, gained, movable, near, one_way_kl, passed, times
from asyncsim.step import ratios
from asyncsim.step.step import Step

_SURE = 1e30
"""A surprisal that stands for infinity, which a log-prob of -inf has and which 0 A would turn into NaN."""
_K = number(2.0, "the weight is W^k at small ratios", 0.0, remedy="the weight is W^k at small ratios")
_LAM = number(3.0, "the weight falls as exp(-lam W)", 0.0, above=True, remedy="the weight falls as exp(-lam W)")
_EDGE = 1e-6
"""How far probabilities are kept from 0 and 1 inside a divergence."""
_FALL = number(0.2, "how far the probability may have moved for A < 0", 0.0)
_RISE = number(0.2, "how far the probability may have moved for A > 0", 0.0)
_KL = number(1e-3, "price of a squared log ratio in units of reward, 0 for none", 0.0)


@estimator("2603.03955", status="reconstruction")
def gipo(
    step: Step,
    a: Tensor,
    sigma: Any = number(1.0, "width of the Gaussian in nats", 0.0, above=True),
    limit: float = number(5.0, "largest log ratio inside the Gaussian, in nats", 0.0, above=True, varies=False),
    lowest: float = number(0.0067, "smallest ratio that is used", 0.0, 1.0, above=True, varies=False),
    highest: float = number(148.0, "largest ratio that is used", 1.0, varies=False),
) -> Tensor:
    """GIPO: token ratios damped by a Gaussian of the log ratio.

    Gaussian importance sampling: c_it = exp(-l_it^2 / (2 sigma^2)) r_it A_i, l = log r to behavior, all detached. The
    product peaks at l = sigma^2 with e^(sigma^2/2) and then falls, down to the clamps. They limit l to +-limit inside
    the Gaussian, and r to [lowest, highest] outside it. Without them the weight would rise again like r. Every token
    keeps a gradient. A reconstruction: constants and clamps are known from second hand.
    """
    far = step.log_ratio.clamp(-limit, limit).div_(per_sample(sigma))
    log_ratio = step.log_ratio.clamp(math.log(lowest), math.log(highest))
    return times(log_ratio.sub_(far.square_().mul_(0.5)).exp_(), a)


@estimator("2511.20347", advantage=advantages.group_std, aggregator="sequence_mean", anchored="behavior")
def sapo(
    step: Step,
    a: Tensor,
    positive: Any = number(1.0, "steepness tau of the gate for A > 0", 0.0, above=True),
    negative: Any = number(1.05, "steepness tau of the gate for A <= 0", 0.0, above=True),
) -> Tensor:
    """SAPO: a smooth sigmoid gate instead of PPO's clip.

    Soft adaptive policy optimization: c_it = 4 S (1 - S) rho_it A_i, S = sigmoid(tau (rho_it - 1)). The gradient of
    (4/tau) sigmoid(tau (rho - 1)) A, equal to rho sech^2(tau (rho - 1)/2) A. At rho = 1 it is A, but the weight still
    rises above 1: for tau = 1 to 1.57 near rho = 2, then it falls to 0.
    """
    ratio = ratios.usable(step.anchored)
    at = times(ratio - 1.0, by_sign(a, positive, negative))
    # 1 - S as S of the negative: no digits are lost where the gate is shut.
    return times(torch.sigmoid(at).mul_(at.neg_().sigmoid_()).mul_(ratio), 4.0 * a)


@estimator("2602.10693", level="sequence", shape="1", advantage=advantages.group_std)
def vespo(
    step: Step,
    a: Tensor,
    k_positive: Any = _K,
    lam_positive: Any = _LAM,
    k_negative: Any = _K.but(3.0),
    lam_negative: Any = _LAM.but(2.0),
) -> Tensor:
    """VESPO: the weight of a sequence is a gamma-shaped function of its ratio, with parameters for each sign of A.

    Variational sequence weight: c_i = phi(W_i) A_i, phi(W) = W^k exp(lam (1 - W)), W_i = prod_t r_it, detached. phi(1)
    = 1, and phi falls to 0 on both sides of its peak at k/lam, whose height is (k/lam)^k e^(lam - k): 1.21 at 0.67 for
    A >= 0, 1.24 at 1.5 for A < 0. A ratio slightly below 1 is thus weighted up for A > 0. Computed as exp(k L + lam (1
    - e^L)) with L = log W limited to +-20.
    """
    log_ratio = step.sequence(step.log_ratio).clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT)
    # 1 - W, to the last digit where W is close to 1.
    gap = -torch.expm1(log_ratio)
    above = per_sample(k_positive) * log_ratio + per_sample(lam_positive) * gap
    below = per_sample(k_negative) * log_ratio + per_sample(lam_negative) * gap
    return torch.where(a >= 0, above, below).exp() * a


@estimator("2503.14286", level="sequence", shape="1", aggregator="sequence_sum", status="reconstruction")
def topr(step: Step, a: Tensor) -> Tensor:
    """TOPR: no ratio for samples with A >= 0, and the truncated sequence ratio for samples with A < 0.

    Tapered off-policy REINFORCE: c = A for A >= 0 and min(W_i, 1) A for A < 0, W_i = prod_t r_it. Good samples are
    imitated whatever the policy thinks of them; bad ones stop pushing once the policy has left them, since W -> 0. A
    reconstruction: the form is known from second hand, there with rewards of +-1 and no baseline (`advantages.none()`).
    With rewards of +-1 and a share p of good samples, a baseline b inside A = r - b acts like another share, p (1 - b)
    / (1 + (1 - 2 p) b). The paper subtracts one number from all rewards, `offset`.
    """
    return torch.where(a < 0, ratios.usable(step.sequence(step.log_ratio)).clamp(max=1.0) * a, a)


def _weighted(positive: float, negative: float) -> str:
    plain = positive == negative == 1.0
    return "policy gradient" if plain else "policy gradient, rewarded and unrewarded samples weighted"


@estimator("2503.14286 as implemented in ROLL", flags={"rewarded": True}, on_policy=_weighted)
def topr_roll(
    step: Step,
    a: Tensor,
    positive: Any = number(1.0, "factor of rewarded samples, 1 for none", 0.0),
    negative: Any = number(1.0, "factor of unrewarded samples, 1 for none", 0.0),
) -> Tensor:
    """TOPR as in ROLL: as `topr`, but with token ratios, and chosen by the sign of the reward, not of the advantage.

    Tapered off-policy REINFORCE by token: c_it = w+ A_i for r_i > 0, w- min(r_it, 1) A_i for r_i <= 0. (r_i the reward,
    r_it the token ratio to behavior.) Which branch a sample takes depends on its reward; its factor depends on its
    advantage. The two may have other signs. A rewarded sample below its group's mean is pushed down at full weight, an
    unrewarded one above it is pulled up with a ratio of at most 1.
    """
    tapered = ratios.usable(step.log_ratio).clamp(max=1.0) * per_sample(negative)
    rewarded = (step.batch.reward > 0).unsqueeze(-1)
    return torch.where(rewarded, torch.ones_like(tapered) * per_sample(positive), tapered) * a


@estimator(
    "2603.20521 for stale data; 2603.14608 for the gate",
    level="none",
    on_policy="gated policy gradient",
    status="reconstruction",
)
def delight(
    step: Step,
    a: Tensor,
    temperature: Any = number(1.0, "units of reward times nats; small ones make the gate a switch", 0.0, above=True),
) -> Tensor:
    """Delightful policy gradient: every token is weighted by a gate of advantage times surprisal, without a ratio.

    Policy gradient gated by delight: c_it = sigmoid(A_i s_it / temperature) A_i, s_it = -log pi(y_it), detached.
    Delight is advantage times surprisal under the current policy. Rare failures are suppressed and rare successes kept,
    whoever drew them: no ratio is needed, and staleness enters only through the data. The gate of a token that is
    certain is 1/2, and of one with A = 0. It depends on the units of reward, and is not 1 where the policies agree. No
    temperature but infinity gives the direction of the policy gradient, half as long. A reconstruction: the gate is
    what the papers print, its temperature is known from second hand.
    """
    surprisal = (-step.current["log_prob"]).clamp(max=_SURE)
    return torch.sigmoid(a * surprisal / per_sample(temperature)) * a


def _square(kl: Any, **_: Any) -> tuple[Penalty, ...]:
    """The penalty kl l^2 on every token, masked or not, which adds -2 kl l to c."""
    return () if kl == 0.0 else (penalties.k2(2.0 * np.asarray(kl), to="behavior"),)


def _capped(step: Step, cap: Any = None, **_: Any) -> Tensor:
    """Token ratios to behavior, truncated at the cap, before any mask."""
    ratio = ratios.usable(step.log_ratio)
    return ratio if cap is None else at_most(ratio, cap)


@estimator("2602.04879, binary form", applied=_capped)
def dppo_tv(
    step: Step, a: Tensor, low: Any = _FALL, high: Any = _RISE, cap: Any = CAP.but(10.0, optional=True)
) -> Tensor:
    """DPPO, binary total variation: mask tokens whose probability has moved too far in their advantage's direction.

    Divergence PPO, binary total variation: c_it = min(r_it, cap) A_i where M_it holds, 0 elsewhere. M = [q <= high] for
    A > 0 and [q >= -low] otherwise, q = pi - mu of the token that was drawn. In this trust region a ratio of 5 may be
    nothing (0.001 to 0.005), and one of 1.3 a lot (0.7 to 0.91). |q| is the total variation between the two policies
    when all other tokens are seen as one. Only moves outward are masked; the way back stays open. The truncated ratio
    is detached.
    """
    return times(passed(_capped(step, cap), near(step, a, low, high)), a)


@estimator("2602.04879, binary form", applied=_capped)
def dppo_kl(
    step: Step,
    a: Tensor,
    low: Any = number(0.05, "how far the binary KL divergence may have moved for A < 0", 0.0),
    high: Any = number(0.05, "how far the binary KL divergence may have moved for A > 0", 0.0),
    cap: Any = CAP.but(10.0, optional=True),
) -> Tensor:
    """DPPO, binary KL: mask tokens outside of the trust region that the update would move further away from behavior.

    Divergence PPO, binary KL: c_it = min(r_it, cap) A_i, 0 for tokens that are too far out and would go further.
    Outside: mu log(mu/pi) + (1 - mu) log((1 - mu)/(1 - pi)) > high and pi > mu for A > 0, or > low and pi < mu
    otherwise; mu and pi are the probabilities of the token that was drawn, all others seen as one, both kept 1e-6 away
    from 0 and 1. The way back stays open. The truncated ratio is detached.
    """
    divergence = one_way_kl(step.behavior["log_prob"], step.current["log_prob"], _EDGE)
    # With the sign of the move it is one quantity between two bounds.
    signed = times(divergence, step.log_ratio.sign())
    return times(passed(_capped(step, cap), movable(signed, a, -per_sample(low), per_sample(high))), a)


@estimator("prime-rl, default loss; 2602.04879 for the mask", applied=_capped, outside=("kl",), penalties=_square)
def dppo_prime(step: Step, a: Tensor, low: Any = _FALL, high: Any = _RISE, kl: Any = _KL) -> Tensor:
    """DPPO as in prime-rl: untruncated ratios, the mask of `dppo_tv`, and a penalty on squared log ratios.

    Divergence PPO with a pull to behavior: c_it = M_it r_it A_i - 2 kl l_it, l = log r = log pi - log mu. M = [pi - mu
    <= high] for A > 0 and [pi - mu >= -low] otherwise, as in `dppo_tv`, but r is not truncated. The second term is the
    gradient of kl l^2 (no 1/2). It is a penalty of its own (`penalties.k2`): tokens that M masks have it, too, and
    factors leave it alone.
    """
    return times(passed(_capped(step), near(step, a, low, high)), a)


@estimator("prime-rl, IPO loss", outside=("kl",), penalties=_square)
def ipo_mask(
    step: Step, a: Tensor, threshold: Any = number(0.1, "how far the probability may have moved", 0.0), kl: Any = _KL
) -> Tensor:
    """INTELLECT policy optimization: mask tokens whose probability has moved too far from behavior in any direction.

    Symmetric mask in probabilities: c_it = r_it A_i [|pi - mu| <= threshold] - 2 kl l_it, l = log r. Unlike
    `dppo_prime` it also masks moves that would bring a token back. Only the second term, the gradient of kl l^2 on
    every token, returns those that are outside. Not the preference method of the same abbreviation.
    """
    # The mask does not ask for the sign of A.
    return times(passed(_capped(step), gained(step).abs_().le_(per_sample(threshold))), a)


@estimator(
    "prime-rl, KPop loss; the same formula in AReaL", outside=("kl",), penalties=_square, status="reconstruction"
)
def kpop(
    step: Step, a: Tensor, threshold: Any = number(0.05, "largest binary KL divergence in nats", 0.0), kl: Any = _KL
) -> Tensor:
    """KPop: mask tokens with a large binary KL divergence between behavior and current policy, in either direction.

    Two-sided KL mask: c_it = r_it A_i [max(KL(pi, mu), KL(mu, pi)) <= threshold] - 2 kl l_it, l = log r. KL(p, q) = p
    log(p/q) + (1 - p) log((1 - p)/(1 - q)) of the probabilities of the token that was drawn, kept 1e-6 away from 0 and
    1. Moves back are masked like moves away; the gradient of kl l^2 acts on every token. A reconstruction: the
    threshold is ours.
    """
    forward, backward = bernoulli_kl(step.current["log_prob"], step.behavior["log_prob"], _EDGE)
    inside = torch.maximum(forward, backward, out=forward).le_(per_sample(threshold))
    return times(passed(_capped(step), inside), a)


@estimator(
    "2607.22186, abstract",
    applied=_capped,
    flags={"outputs": ("entropy",)},
    raises="and with a policy that has no `entropy`",
    status="reconstruction",
)
def estr(
    step: Step,
    a: Tensor,
    limit: Any = number(0.5, "how far a log ratio may be, per nat of entropy", 0.0),
    floor: Any = number(0.01, "entropy in nats below which tokens share one bound", 0.0),
) -> Tensor:
    """ESTR: token ratios inside a trust region whose width is proportional to the entropy at the token.

    Trust region scaled by entropy: c_t = r_t A [|l_t| <= limit max(H_t, floor)], l = log r, H_t of pi at the token. Log
    ratios of sure tokens are noise of sampler and trainer, which one bound for all lets pass. Those of uncertain tokens
    are large by nature, and one bound drops them. Here the bound grows with the entropy of the current policy in the
    token's state. Dropped tokens stay in the denominators; one whose log-prob is NaN is dropped. A reconstruction: only
    the abstract could be read. It says that each token's deviation is scaled by its local entropy; the form, both
    constants and the untruncated ratio inside are ours.
    """
    floor, entropy = per_sample(floor), step.current["entropy"]
    wide = entropy.clamp(min=floor if isinstance(floor, float) else floor.to(entropy.dtype))
    inside = (step.log_ratio.abs() <= per_sample(limit) * wide).to(step.mask.dtype)
    return times(passed(_capped(step), inside), a)
