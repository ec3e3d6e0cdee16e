"""Weights on the score: what the field calls the estimator, from likelihoods to one number per token."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base import plugins
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Weight:
    """Score weight of a method, computed by subclasses from log-probs and advantages.

    `level`: which product of token ratios enters, "none", "token", "prefix", "sequence" or "geometric". `outputs`: what
    it reads of the current policy besides `log_prob`. `anchored`: whether the method's declared anchor matters.
    `proximal`: whether it reads log-probs of the proximal policy whatever the anchor. `rewarded`: whether it reads
    rewards besides the advantages. `selects`: whether it stops some tokens of fresh data, by what the others are.
    `grouped`: whether it weighs a sample by the others of its group.
    `partly`: whether it stops tokens in part, so that c lies between 0 and what is applied times A.
    `banded`: whether it clips the ratio at its level to [1 - low, 1 + high], by its knobs `low` and `high`.
    """

    level: str
    outputs: ClassVar[tuple[str, ...]] = ()
    anchored: ClassVar[bool] = False
    proximal: ClassVar[bool] = False
    rewarded: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    partly: ClassVar[bool] = False
    banded: ClassVar[bool] = False

    def applied(self, step: Step) -> Tensor:
        """Score weight c at advantage 1, without masks and factors, `[R, G, N, T or 1]`."""
        return self.score_weight(step, torch.ones_like(step.log_ratio[..., :1]))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Score weight c `[R, G, N, T or 1]` for advantages `[R, G, N, T or 1]`; values on masked tokens are ignored.

        A subclass defines this, or `applied`, of which c is the product with A.
        """
        return self.applied(step) * advantage

    def spread(self, step: Step, advantage: Tensor) -> Tensor | None:
        """Weight e on the log-prob of every action in each token's state, `[R, G, N, T, A]`; None for no such term."""
        return None

    def describe(self) -> dict[str, Any]:
        name = plugins.name_of(self)
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"weight": name, "level": self.level, **settings}


@dataclass(frozen=True)
class NoRatio(Weight):
    """Score weight without importance ratio, c = A, even on stale data."""

    level: ClassVar[str] = "none"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        return torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return advantage


@dataclass(frozen=True)
class Ratio(Weight):
    """Score weight c = min(ratio, cap) A with the token's or sequence's ratio to behavior; cap None: not truncated."""

    level: str
    cap: Any = field(default=None, metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Token ratios `[R, G, N, T]` or sequence ratios `[R, G, N, 1]` to the behavior policy, truncated at `cap`."""
        log_ratio = step.log_ratio
        weight = ratios.usable(step.sequence(log_ratio) if self.level == "sequence" else log_ratio)
        return weight if self.cap is None else at_most(weight, self.cap)


@dataclass(frozen=True)
class Clip(Weight):
    """Score weight c = rho A where PPO's clip is open: rho <= 1 + high for A > 0, rho >= 1 - low for A < 0."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True
    banded: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        return ratios.usable(step.anchored)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        ratio = self.applied(step)
        return clipped(ratio, ratio, advantage, *band(self.low, self.high))


def band(low: Any, high: Any) -> tuple[Any, Any]:
    """Clip bounds of a ratio, 1 - low and 1 + high, from knobs."""
    return 1.0 - per_sample(low), 1.0 + per_sample(high)


def clipped(weight: Tensor, ratio: Tensor, advantage: Tensor, lowest: Any, highest: Any) -> Tensor:
    """Weight times A where PPO's clip of `ratio` to [lowest, highest] is open, exactly 0 where it is closed.

    d/d theta of min(rho A, clip(rho) A) is rho A grad log pi, but 0 where the clipped branch is the smaller one: above
    `highest` for A > 0 and below `lowest` for A < 0. A ratio on a bound is inside. A weight that is NaN stays NaN.
    """
    return times(times(movable(ratio, advantage, lowest, highest), weight), advantage)


def movable(values: Tensor, advantage: Tensor, lowest: Any, highest: Any) -> Tensor:
    """1 where PPO's clip is open, 0 where closed: value > `highest` and A > 0, value < `lowest` and A < 0, or NaN.

    A new tensor of numbers: torch takes four times as long to compare into booleans and to select by them.
    """
    if isinstance(lowest, float) and isinstance(highest, float):
        nearest = values.clamp(lowest, highest)
    else:
        lowest, highest = (torch.as_tensor(x, dtype=values.dtype, device=values.device) for x in (lowest, highest))
        nearest = torch.maximum(values, lowest).clamp_(max=highest)
    beyond = torch.sub(values, nearest, out=nearest)
    return times(beyond, advantage.sign()).le_(0.0)


def by_sign(advantage: Tensor, positive: Any, negative: Any) -> Tensor:
    """One knob where the advantage is positive, another elsewhere, shaped like the advantage."""
    above, below = (
        torch.as_tensor(per_sample(x), dtype=advantage.dtype, device=advantage.device) for x in (positive, negative)
    )
    return torch.where(advantage > 0, above, below)


def times(weight: Tensor, factor: Tensor) -> Tensor:
    """Product of weight and factor, written to the memory of `weight` (which must not be shared) if it fits."""
    # torch.broadcast_shapes takes as long as the product of a small step.
    fits = weight.shape == factor.shape or (
        factor.ndim <= weight.ndim
        and all(f in (1, w) for w, f in zip(reversed(weight.shape), reversed(factor.shape), strict=False))
    )
    return weight.mul_(factor) if fits and weight.dtype == torch.result_type(weight, factor) else weight * factor


def at_most(weight: Tensor, cap: Any) -> Tensor:
    """Score weights truncated from above at one cap, or at one cap per replicate."""
    cap = per_sample(cap)
    return weight.clamp(max=cap) if isinstance(cap, float) else torch.minimum(weight, cap.to(weight.dtype))


_LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class DualClip(Clip):
    """PPO's clip with a second bound: closed where A < 0 and the ratio exceeds `dual`, so that weights are bounded."""

    dual: Any = field(default=3.0, metadata=MARK)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        ratio = self.applied(step)
        weight = clipped(ratio, ratio, advantage, *band(self.low, self.high))
        return zero_outside(weight, ~((advantage < 0) & (ratio > per_sample(self.dual))))


def zero_outside(weight: Tensor, inside: Tensor) -> Tensor:
    """The given weight where `inside` holds, exactly 0 elsewhere, even if the weight is infinite or NaN."""
    return torch.where(inside, weight, torch.zeros((), dtype=weight.dtype, device=weight.device))


def passed(ratio: Tensor, inside: Tensor) -> Tensor:
    """Ratios, made finite, where the mask `inside` is 1, exactly 0 where it is 0 even for NaN; overwrites `inside`."""
    return inside.mul_(ratio).nan_to_num_(0.0)


def probability(log_prob: Tensor) -> Tensor:
    """Probability exp(log p) within 1e-7 in float32, by torch's exp2, which takes a quarter of exp's time."""
    return (log_prob * _LOG2_E).exp2_()


def gained(step: Step) -> Tensor:
    """Change pi - mu in the probability of each sampled token since the behavior policy, `[R, G, N, T]`."""
    now, then = (probability(x["log_prob"]).clamp_(max=1.0) for x in (step.current, step.behavior))
    return now.sub_(then)


def bernoulli_kl(log_first: Tensor, log_second: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """KL divergences in nats of the binary outcome that the token is sampled or not, in both directions.

    KL(p, q) = p log(p/q) + (1 - p) log((1 - p)/(1 - q)), and KL(q, p). Both probabilities are kept `eps` away from 0
    and 1, where a logarithm would be infinite.
    """
    first, second, gap, rest = _outcomes(log_first, log_second, eps)
    # The logarithms serve both directions.
    return first.mul_(gap).add_(rest), second.mul_(gap).add_(rest).neg_()


def one_way_kl(log_first: Tensor, log_second: Tensor, eps: float) -> Tensor:
    """KL divergence of the first from the second binary distribution, as in `bernoulli_kl`, in nats."""
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
    """Mask of tokens that may move along A: 0 where pi - mu > high and A > 0, or pi - mu < -low and A < 0; else 1."""
    return movable(gained(step), advantage, -per_sample(low), per_sample(high))


@dataclass(frozen=True)
class TruncatedClip(Weight):
    """Score weight c = min(h, cap) u A where PPO's clip on u = pi/pi_prox is open, with h = pi_prox/mu."""

    cap: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    proximal: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        return times(self.carried(step), ratios.usable(step.drift))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        ratio = ratios.usable(step.drift)
        return clipped(times(self.carried(step), ratio), ratio, advantage, *band(self.low, self.high))

    def carried(self, step: Step) -> Tensor:
        return at_most(ratios.usable(step.behavior_log_ratio), self.cap)


def at_least(weight: Tensor, floor: Any) -> Tensor:
    """Score weights bounded from below by one floor, or by one floor per replicate."""
    floor = per_sample(floor)
    return weight.clamp(min=floor) if isinstance(floor, float) else torch.maximum(weight, floor.to(weight.dtype))
