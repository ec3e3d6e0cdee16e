"""What the clipped, weighted and masked surrogates share: bands, probabilities of tokens, what of a token is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import penalties
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.methods._method import Penalty
from asyncsim.methods._weights import Clip, clipped, movable
from asyncsim.step.step import Step

_LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class DualClip(Clip):
    """PPO's clip, closed also for A < 0 above `dual`, where the plain one leaves the weight without a bound."""

    dual: Any = field(default=3.0, metadata=MARK)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where either clip is closed."""
        ratio = self.applied(step)
        lowest, highest = 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)
        weight = clipped(ratio, ratio, advantage, lowest, highest)
        return zero_outside(weight, ~((advantage < 0) & (ratio > per_sample(self.dual))))


def zero_outside(weight: Tensor, inside: Tensor) -> Tensor:
    """The weight where `inside` holds, exactly 0 elsewhere, whatever stands there."""
    return torch.where(inside, weight, torch.zeros((), dtype=weight.dtype, device=weight.device))


def passed(ratio: Tensor, inside: Tensor) -> Tensor:
    """Finite ratios where `inside` is 1, exactly 0 where it is 0, also if the ratio is NaN; takes over `inside`."""
    return inside.mul_(ratio).nan_to_num_(0.0)


def probability(log_prob: Tensor) -> Tensor:
    """exp(log p), within 1e-7 of it in float32; a new tensor. Torch raises 2 to a power in a quarter of the time."""
    return (log_prob * _LOG2_E).exp2_()


def gained(step: Step) -> Tensor:
    """pi - mu of the tokens that were drawn, both at most 1; a new tensor `[R, G, N, T]`."""
    now, then = (probability(x["log_prob"]).clamp_(max=1.0) for x in (step.current, step.behavior))
    return now.sub_(then)


def bernoulli_kl(log_first: Tensor, log_second: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """KL divergences in nats of drawing the token or not, both ways, from log-probs of the token.

    KL(p, q) = p log(p/q) + (1 - p) log((1 - p)/(1 - q)), and KL(q, p). Both probabilities are kept `eps` away from 0
    and 1, where a logarithm would be infinite.
    """
    first, second, gap, rest = _outcomes(log_first, log_second, eps)
    # The logarithms serve both directions.
    return first.mul_(gap).add_(rest), second.mul_(gap).add_(rest).neg_()


def one_way_kl(log_first: Tensor, log_second: Tensor, eps: float) -> Tensor:
    """KL(p, q) of `bernoulli_kl` alone."""
    first, _, gap, rest = _outcomes(log_first, log_second, eps)
    return first.mul_(gap).add_(rest)


def _outcomes(log_first: Tensor, log_second: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """p, q, a - b and b with a = log(p/q), b = log((1 - p)/(1 - q)), of which KL(p, q) = p (a - b) + b."""
    edges = math.log(eps), math.log1p(-eps)
    gap, log_second = log_first.clamp(*edges), log_second.clamp(*edges)
    first, second = probability(gap), probability(log_second)
    gap.sub_(log_second)
    rest = (1.0 - first).div_(torch.sub(1.0, second, out=log_second)).log_()
    return first, second, gap.sub_(rest), rest


def near(step: Step, advantage: Tensor, low: Any, high: Any) -> Tensor:
    """1 where a token may still move along A: pi - mu <= high for A > 0, >= -low for A < 0; back, always."""
    return movable(gained(step), advantage, -per_sample(low), per_sample(high))


def square(kl: Any, **_: Any) -> tuple[Penalty, ...]:
    """The penalty kl l^2 of every token, masked by the method or not: it adds -2 kl l to c."""
    return () if kl == 0.0 else (penalties.k2(2.0 * np.asarray(kl), to="behavior"),)
