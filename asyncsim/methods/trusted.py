"""Methods with a trust region in probabilities: tokens that have moved too far have no gradient."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import penalties
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import number
from asyncsim.methods._estimator import CAP, estimator
from asyncsim.methods._method import Penalty
from asyncsim.methods._weights import at_most, bernoulli_kl, gained, movable, near, one_way_kl, passed, times
from asyncsim.step import ratios
from asyncsim.step.step import Step

_EDGE = 1e-6
"""How far probabilities are kept from 0 and 1 inside a divergence."""
_FALL = number(0.2, "how far the probability may have moved for A < 0", 0.0)
_RISE = number(0.2, "how far the probability may have moved for A > 0", 0.0)
_KL = number(1e-3, "price of a squared log ratio in units of reward, 0 for none", 0.0)


def _square(kl: Any, **_: Any) -> tuple[Penalty, ...]:
    """The penalty kl l^2 of every token, masked by the method or not: it adds -2 kl l to c."""
    return () if kl == 0.0 else (penalties.k2(2.0 * np.asarray(kl), to="behavior"),)


def _capped(step: Step, cap: Any = None, **_: Any) -> Tensor:
    """Token ratios to behavior, at most the cap, as if nothing were masked."""
    ratio = ratios.usable(step.log_ratio)
    return ratio if cap is None else at_most(ratio, cap)


@estimator("2602.04879, binary form", applied=_capped)
def dppo_tv(
    step: Step, a: Tensor, low: Any = _FALL, high: Any = _RISE, cap: Any = CAP.but(10.0, optional=True)
) -> Tensor:
    """DPPO with binary total variation: tokens whose probability has moved too far outward are masked.

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
    """DPPO with binary KL divergence: tokens that have left the trust region outward are masked.

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
    """DPPO as prime-rl has it: the total-variation mask, ratios without a cap, a squared log ratio on every token.

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
    """INTELLECT policy optimization: tokens whose probability has moved, either way, are masked.

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
    """KPop: tokens whose binary KL divergence from behavior is large in either direction are masked.

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
    """ESTR: token ratios inside a trust region that is as wide as the token's distribution is uncertain.

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
