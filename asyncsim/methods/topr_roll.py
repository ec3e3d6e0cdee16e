"""TOPR as ROLL has it: token ratios, split by the sign of the reward, not of the advantage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class TaperedTokens(Weight):
    """c = positive A for rewards above 0, negative min(r, 1) A for the others; see `topr_roll`."""

    positive: Any = field(metadata=MARK)
    negative: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    rewarded: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A of rewarded samples, the truncated token ratio times A of the others, each with its own factor."""
        tapered = ratios.usable(step.log_ratio).clamp(max=1.0) * per_sample(self.negative)
        rewarded = (step.batch.reward > 0).unsqueeze(-1)
        return torch.where(rewarded, torch.ones_like(tapered) * per_sample(self.positive), tapered) * advantage


def topr_roll(
    positive: Any = 1.0, negative: Any = 1.0, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Tapered off-policy REINFORCE by token: c_it = w+ A_i for r_i > 0, w- min(r_it, 1) A_i for r_i <= 0.

    (r_i the reward, r_it the token ratio to behavior.) Which branch a sample takes depends on its reward; its factor
    depends on its advantage. The two may have other signs. A rewarded sample below its group's mean is pushed down at
    full weight, an unrewarded one above it is pulled up with a ratio of at most 1.

    Arguments: `positive` w+ and `negative` w- >= 0, pure numbers (or one per replicate); `advantage` (default group
    mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is
    `[R, G, N, T]`. Raises `InputError` for negative factors and unknown names. Source: 2503.14286 as implemented in
    ROLL.

    >>> topr_roll(negative=0.5).describe()["negative"]
    0.5
    """
    weight = TaperedTokens(
        knob("positive", positive, "give the factor of rewarded samples, 1 for none", 0.0),
        knob("negative", negative, "give the factor of unrewarded samples, 1 for none", 0.0),
    )
    plain = weight.positive == weight.negative == 1.0
    return Method(
        "topr_roll",
        or_default(advantage, advantages.group_mean()),
        weight,
        aggregator,
        on_policy="policy gradient" if plain else "policy gradient, rewarded and unrewarded samples weighted",
    )
