"""TOPR: good samples as they are, bad ones with the truncated ratio of the sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class Tapered(Weight):
    """c = A for A >= 0, min(W, 1) A for A < 0; see `topr`."""

    level: ClassVar[str] = "sequence"  # type: ignore[misc]

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A of good samples, the truncated sequence ratio times A of bad ones."""
        ratio = ratios.usable(step.sequence(step.log_ratio)).clamp(max=1.0)
        return torch.where(advantage < 0, ratio * advantage, advantage)


def topr(advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Tapered off-policy REINFORCE: c = A for A >= 0 and min(W_i, 1) A for A < 0, W_i = prod_t r_it.

    Good samples are imitated whatever the policy thinks of them; bad ones stop pushing once the policy has left them,
    since W -> 0. A reconstruction: the form is known from second hand, there with rewards of +-1 and no
    baseline (`advantages.none()`). With rewards of +-1 and a share p of good
    samples, a baseline b inside A = r - b acts like another share, p (1 - b) / (1 + (1 - 2 p) b).

    Arguments: `advantage` (default group mean; the paper subtracts one number from all rewards, `offset`);
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is
    `[R, G, N, 1]`. Raises `InputError` for an unknown aggregator. Source: 2503.14286.

    >>> topr().describe()["level"]
    'sequence'
    """
    return Method(
        "topr", or_default(advantage, advantages.group_mean()), Tapered(), aggregator, status="reconstruction"
    )
