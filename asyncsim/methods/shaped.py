"""Methods that shape the weight of a token or of a sequence smoothly, or by the sign of an advantage or reward."""

import math
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import number
from asyncsim.methods._estimator import estimator
from asyncsim.methods._weights import by_sign, times
from asyncsim.step import ratios
from asyncsim.step.step import Step

_SURE = 1e30
"""A surprisal that stands for infinity, which a log-prob of -inf has and which 0 A would turn into NaN."""
_K = number(2.0, "the weight is W^k at small ratios", 0.0, remedy="the weight is W^k at small ratios")
_LAM = number(3.0, "the weight falls as exp(-lam W)", 0.0, above=True, remedy="the weight falls as exp(-lam W)")


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
    """SAPO: a soft gate instead of PPO's clip.

    Soft adaptive policy optimization: c_it = 4 S (1 - S) rho_it A_i, S = sigmoid(tau (rho_it - 1)). The gradient of
    (4/tau) sigmoid(tau (rho - 1)) A, equal to rho sech^2(tau (rho - 1)/2) A. At rho = 1 it is A, but the weight still
    rises above 1: for tau = 1 to 1.57 near rho = 2, then it falls to 0.
    """
    ratio = ratios.usable(step.anchored)
    at = times(ratio - 1.0, by_sign(a, positive, negative))
    # 1 - S as S of the negative: no digits are lost where the gate is shut.
    slope = torch.sigmoid(at).mul_(at.neg_().sigmoid_())
    return times(slope.mul_(ratio), 4.0 * a)


@estimator("2602.10693", level="sequence", shape="1", advantage=advantages.group_std)
def vespo(
    step: Step,
    a: Tensor,
    k_positive: Any = _K,
    lam_positive: Any = _LAM,
    k_negative: Any = _K.but(3.0),
    lam_negative: Any = _LAM.but(2.0),
) -> Tensor:
    """VESPO: a gamma-shaped weight of the sequence ratio, another one for each sign of the advantage.

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
    """TOPR: good samples as they are, bad ones with the truncated ratio of the sequence.

    Tapered off-policy REINFORCE: c = A for A >= 0 and min(W_i, 1) A for A < 0, W_i = prod_t r_it. Good samples are
    imitated whatever the policy thinks of them; bad ones stop pushing once the policy has left them, since W -> 0. A
    reconstruction: the form is known from second hand, there with rewards of +-1 and no baseline (`advantages.none()`).
    With rewards of +-1 and a share p of good samples, a baseline b inside A = r - b acts like another share, p (1 - b)
    / (1 + (1 - 2 p) b). The paper subtracts one number from all rewards, `offset`.
    """
    ratio = ratios.usable(step.sequence(step.log_ratio)).clamp(max=1.0)
    return torch.where(a < 0, ratio * a, a)


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
    """TOPR as ROLL has it: token ratios, split by the sign of the reward, not of the advantage.

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
    """Delightful policy gradient: no ratio, every token gated by advantage times surprisal.

    Policy gradient gated by delight: c_it = sigmoid(A_i s_it / temperature) A_i, s_it = -log pi(y_it), detached.
    Delight is advantage times surprisal under the current policy. Rare failures are suppressed and rare successes kept,
    whoever drew them: no ratio is needed, and staleness enters only through the data. The gate of a token that is
    certain is 1/2, and of one with A = 0. It depends on the units of reward, and is not 1 where the policies agree. No
    temperature but infinity gives the direction of the policy gradient, half as long. A reconstruction: the gate is
    what the papers print, its temperature is known from second hand.
    """
    surprisal = (-step.current["log_prob"]).clamp(max=_SURE)
    return torch.sigmoid(a * surprisal / per_sample(temperature)) * a
