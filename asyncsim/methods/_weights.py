"""Weights on the score: what the field calls the estimator, from likelihoods to one number per token."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base import plugins
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Weight:
    """What the field calls the estimator; a subclass says what it makes of likelihoods and advantages.

    `level`: which product of token ratios enters, "none", "token", "prefix", "sequence" or "geometric". `outputs`: what
    it reads of the current policy besides `log_prob`. `anchored`: whether the method's declared anchor matters.
    `proximal`: whether it reads log-probs of the proximal policy whatever the anchor. `rewarded`: whether it reads
    rewards besides the advantages. `selects`: whether it stops some tokens of fresh data, by what the others are.
    `partly`: whether it stops tokens in part, so that c lies between 0 and what is applied times A.
    """

    level: str
    outputs: ClassVar[tuple[str, ...]] = ()
    anchored: ClassVar[bool] = False
    proximal: ClassVar[bool] = False
    rewarded: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    partly: ClassVar[bool] = False

    def applied(self, step: Step) -> Tensor:
        """Weight that a sample's score has whatever the sign of its advantage, `[R, G, N, T or 1]`: c at A = 1."""
        return self.score_weight(step, torch.ones_like(step.log_ratio[..., :1]))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """c `[R, G, N, T or 1]` for advantages `[R, G, N, T or 1]`; what it says of masked tokens does not matter."""
        raise NotImplementedError

    def spread(self, step: Step, advantage: Tensor) -> Tensor | None:
        """e `[R, G, N, T, A]`, one number for the log-prob of every action in the token's state; None: nothing."""
        return None

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        name = plugins.name_of(self)
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"weight": name, "level": self.level, **settings}


@dataclass(frozen=True)
class NoRatio(Weight):
    """c = A: data is stale, scores are current."""

    level: ClassVar[str] = "none"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """1 for every sample."""
        return torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A."""
        return advantage


@dataclass(frozen=True)
class Ratio(Weight):
    """c = min(ratio, cap) A with the ratio of the token or of the sequence to behavior; cap None: untruncated."""

    level: str
    cap: Any = field(default=None, metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Token ratios `[R, G, N, T]` or the sequence ratio `[R, G, N, 1]`, truncated from above."""
        log_ratio = step.log_ratio
        weight = ratios.usable(step.sequence(log_ratio) if self.level == "sequence" else log_ratio)
        return weight if self.cap is None else at_most(weight, self.cap)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Truncated ratio times A."""
        return self.applied(step) * advantage


@dataclass(frozen=True)
class Clip(Weight):
    """c = rho A where the clip is open: rho <= 1 + high for A > 0, rho >= 1 - low for A < 0."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """Token ratios to the anchor."""
        return ratios.usable(step.anchored)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where the clip is closed."""
        ratio = self.applied(step)
        return clipped(ratio, ratio, advantage, 1.0 - per_sample(self.low), 1.0 + per_sample(self.high))


def clipped(weight: Tensor, ratio: Tensor, advantage: Tensor, lowest: Any, highest: Any) -> Tensor:
    """weight A where the pessimistic clip of `ratio` to [lowest, highest] is open, exactly 0 where it is closed.

    d/d theta of min(rho A, clip(rho) A) is rho A grad log pi, but 0 where the clipped branch is the smaller one: above
    `highest` for A > 0 and below `lowest` for A < 0. A ratio on a bound is inside. A weight that is NaN stays NaN.
    """
    return times(times(movable(ratio, advantage, lowest, highest), weight), advantage)


def movable(values: Tensor, advantage: Tensor, lowest: Any, highest: Any) -> Tensor:
    """1 where a step along A may still move `values`; 0 beyond `highest` for A > 0, below `lowest` for A < 0, for NaN.

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
    """One number where A > 0, another elsewhere, shaped like A; each a bound knob."""
    above, below = (
        torch.as_tensor(per_sample(x), dtype=advantage.dtype, device=advantage.device) for x in (positive, negative)
    )
    return torch.where(advantage > 0, above, below)


def times(weight: Tensor, factor: Tensor) -> Tensor:
    """own factor, in the memory of `own` (which nobody else may hold) where the product fits in there."""
    # torch.broadcast_shapes takes as long as the product of a small step.
    fits = weight.shape == factor.shape or (
        factor.ndim <= weight.ndim
        and all(f in (1, w) for w, f in zip(reversed(weight.shape), reversed(factor.shape), strict=False))
    )
    return weight.mul_(factor) if fits and weight.dtype == torch.result_type(weight, factor) else weight * factor


def at_most(weight: Tensor, cap: Any) -> Tensor:
    """Weights truncated from above by a number, or by one per replicate."""
    cap = per_sample(cap)
    return weight.clamp(max=cap) if isinstance(cap, float) else torch.minimum(weight, cap.to(weight.dtype))
