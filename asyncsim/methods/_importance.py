"""Weights of importance sampling: normalized over the step, by prefixes, by decisions, with three policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.advantages._traces import next_generated
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.methods._weights import Weight, at_most, clipped, times
from asyncsim.step import ratios
from asyncsim.step.step import Step


@dataclass(frozen=True)
class BoundedRatio(Weight):
    """c = max(min(ratio, cap), floor) A with the ratio of the token, of the sequence, or the geometric mean of it."""

    level: str
    cap: Any = field(metadata=MARK)
    floor: Any = field(default=0.0, metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        """Ratios between floor and cap, `[R, G, N, T or 1]`."""
        return at_least(at_most(ratios.usable(at_level(step, self.level)), self.cap), self.floor)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Bounded ratio times A."""
        return self.applied(step) * advantage


@dataclass(frozen=True)
class NormalizedRatio(Weight):
    """c = w A / mean(w), w = min(ratio, cap), with the mean over all tokens or all sequences of the step."""

    level: str
    cap: Any = field(metadata=MARK)
    normalize: str = "tokens"

    def truncated(self, step: Step) -> Tensor:
        """The ratios before they are normalized, `[R, G, N, T or 1]`."""
        return at_most(ratios.usable(at_level(step, self.level)), self.cap)

    def applied(self, step: Step) -> Tensor:
        """Truncated ratios over their mean, `[R, G, N, T or 1]`; 0 in a replicate whose mean is not finite."""
        weight = self.truncated(step)
        mean = self._mean(step, weight)
        step.statistics["weight_before_normalization"] = mean[:, 0, 0, 0]
        step.statistics["normalization_broken"] = (~torch.isfinite(mean))[:, 0, 0, 0].to(mean.dtype)
        sound = torch.isfinite(mean) & (mean > 0)
        return torch.where(sound, weight / torch.where(sound, mean, torch.ones_like(mean)), 0.0)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Normalized ratio times A."""
        return self.applied(step) * advantage

    def _mean(self, step: Step, weight: Tensor) -> Tensor:
        """Mean weight of the step, `[R, 1, 1, 1]`: 0 where the step is empty."""
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
    """The same of w = max(min(ratio, cap), floor)."""

    floor: Any = field(default=0.0, metadata=MARK)

    def truncated(self, step: Step) -> Tensor:
        """Ratios between floor and cap, `[R, G, N, T or 1]`."""
        return at_least(super().truncated(step), self.floor)


@dataclass(frozen=True)
class PrefixRatio(Weight):
    """c_t = P_t A_t with P_t the product of the token ratios up to and including t."""

    level: ClassVar[str] = "prefix"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """Prefix ratios, `[R, G, N, T]`."""
        return ratios.usable(step.log_ratio.cumsum(-1))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Prefix ratio times A."""
        return self.applied(step) * advantage


@dataclass(frozen=True)
class PerDecision(Weight):
    """c_t = sum_{k>=t} P_k (A_k - A_{k+1}): every reward under the ratio of the tokens up to it."""

    level: ClassVar[str] = "prefix"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """Sequence ratios, `[R, G, N, 1]`: the weight of what is paid at the end."""
        return ratios.usable(step.sequence(step.log_ratio))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Rewards from each token on, each with its prefix ratio; one advantage per sequence is paid at the end."""
        if advantage.shape[-1] == 1:
            return self.applied(step) * advantage
        ended, mask = step.batch.ended, step.mask
        several = ended is not None and bool((ended & (next_generated(mask, mask) > 0)).any())
        checks.require(
            not several,
            "method",
            "per_decision_is",
            "given one episode in each row",
            "use tasks with trajectory='episode'",
        )
        to_go = torch.where(step.mask > 0, advantage, torch.zeros_like(advantage))
        paid = torch.where(mask > 0, to_go - next_generated(to_go, mask), torch.zeros_like(to_go))
        weighted = ratios.usable(step.log_ratio.cumsum(-1)) * paid
        return weighted.flip(-1).cumsum(-1).flip(-1)


@dataclass(frozen=True)
class TruncatedClip(Weight):
    """c = min(h, cap) u A where the clip on u = pi/pi_prox is open; h = pi_prox/mu carries staleness and mismatch."""

    cap: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    proximal: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """min(h, cap) u, `[R, G, N, T]`."""
        return times(self.carried(step), ratios.usable(step.drift))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Truncated h times PPO's weight on u."""
        ratio = ratios.usable(step.drift)
        lowest, highest = 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)
        return clipped(times(self.carried(step), ratio), ratio, advantage, lowest, highest)

    def carried(self, step: Step) -> Tensor:
        """min(h, cap), `[R, G, N, T]`."""
        return at_most(ratios.usable(step.behavior_log_ratio), self.cap)


@dataclass(frozen=True)
class BoundedClip(TruncatedClip):
    """c = max(min(h, cap), floor) u A where the clip on u is open."""

    floor: Any = field(default=0.0, metadata=MARK)

    def carried(self, step: Step) -> Tensor:
        """max(min(h, cap), floor), `[R, G, N, T]`."""
        return at_least(super().carried(step), self.floor)


def at_level(step: Step, level: str) -> Tensor:
    """Log ratio to behavior of the tokens, of the sequence, or its mean over the sequence, `[R, G, N, T or 1]`."""
    if level == "token":
        return step.log_ratio
    return step.sequence(step.log_ratio) if level == "sequence" else step.geometric(step.log_ratio)


def at_least(weight: Tensor, floor: Any) -> Tensor:
    """Weights bounded from below by a number, or by one per replicate."""
    floor = per_sample(floor)
    return weight.clamp(min=floor) if isinstance(floor, float) else torch.maximum(weight, floor.to(weight.dtype))
