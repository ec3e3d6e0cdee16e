"""Weights on the score: what the field calls the estimator, from token log ratios to one number per token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from asyncsim import checks, ratios
from asyncsim.knobs import MARK, per_sample


class Weight(Protocol):
    """What the field calls the estimator: from token log ratios to the score weight.

    `ratio(log_ratio)`: the weight that the loss applies, `[R, G, N, T or 1]`, before anything that depends on the
    sign of the advantage. `score_weight(ratio, advantage)`: c, `[R, G, N, T or 1]`; `advantage` is `[R, G, N, 1]`.
    """

    def ratio(self, log_ratio: Tensor) -> Tensor: ...

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class NoRatio:
    """c = A: data is stale, scores are current."""

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """1 for every sample."""
        return torch.ones_like(log_ratio[..., :1])

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """A."""
        return advantage

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "none"}


@dataclass(frozen=True)
class Ratio:
    """c = min(ratio, cap) A with the ratio of the token or of the sequence; cap None: untruncated."""

    level: str
    cap: Any = field(default=None, metadata=MARK)

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """Token ratios `[R, G, N, T]` or the sequence ratio `[R, G, N, 1]`, truncated from above."""
        if self.level == "sequence" and log_ratio.shape[-1] > 1:
            log_ratio = log_ratio.sum(-1, keepdim=True)
        weight = ratios.usable(log_ratio)
        if self.cap is None:
            return weight
        cap = per_sample(self.cap)
        return weight.clamp(max=cap) if isinstance(cap, float) else torch.minimum(weight, cap)

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """Ratio times A."""
        return ratio * advantage

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "ratio", "level": self.level, "cap": self.cap}


@dataclass(frozen=True)
class Clip:
    """c = rho A where the clip is open: rho <= 1 + high for A > 0, rho >= 1 - low for A < 0."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    def ratio(self, log_ratio: Tensor) -> Tensor:
        """Token ratios to the anchor."""
        return ratios.usable(log_ratio)

    def score_weight(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """Ratio times A, 0 where the clip is closed."""
        too_high = (advantage > 0) & (ratio > 1.0 + per_sample(self.high))
        too_low = (advantage < 0) & (ratio < 1.0 - per_sample(self.low))
        return torch.where(too_high | too_low, torch.zeros((), dtype=ratio.dtype), ratio * advantage)

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"weight": "clip", "level": "token", "low": self.low, "high": self.high}


def checked_level(level: str) -> str:
    """ "token" or "sequence"."""
    return checks.one_of("level", level, ("token", "sequence"), "say which ratio multiplies the score")
