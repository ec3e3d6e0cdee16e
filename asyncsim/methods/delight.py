"""Delightful policy gradient: no ratio, every token gated by advantage times surprisal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight

_SURE = 1e30
"""A surprisal that stands for infinity, which a log-prob of -inf has and which 0 A would turn into NaN."""


@dataclass(frozen=True)
class Gated(Weight):
    """c = sigmoid(A s / temperature) A; see `delight`."""

    temperature: Any = field(metadata=MARK)

    level: ClassVar[str] = "none"  # type: ignore[misc]

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Gate times A, `[R, G, N, T]`."""
        surprisal = (-step.current["log_prob"]).clamp(max=_SURE)
        return torch.sigmoid(advantage * surprisal / per_sample(self.temperature)) * advantage


def delight(temperature: Any = 1.0, advantage: Advantage | None = None, aggregator: str = "token_mean") -> Method:
    """Policy gradient gated by delight: c_it = sigmoid(A_i s_it / temperature) A_i, s_it = -log pi(y_it), detached.

    Delight is advantage times surprisal under the current policy. Rare failures are suppressed and rare successes kept,
    whoever drew them: no ratio is needed, and staleness enters only through the data. The gate of a token that is
    certain is 1/2, and of one with A = 0. It depends on the units of reward, and is not 1 where the policies agree. No
    temperature but infinity gives the direction of the policy gradient, half as long. A reconstruction: the gate is
    what the papers print, its temperature is known from second hand.

    Arguments: `temperature` > 0 in units of reward times nats (or one per replicate); `advantage` (default group mean);
    `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is
    `[R, G, N, T]`. Raises `InputError` for a temperature of 0 or below and unknown names. Source: 2603.20521 for stale
    data; 2603.14608 for the gate.

    >>> delight(0.5).describe()["temperature"]
    0.5
    """
    remedy = "give units of reward times nats above 0; small ones make the gate a switch"
    return Method(
        "delight",
        or_default(advantage, advantages.group_mean()),
        Gated(knob("temperature", temperature, remedy, 0.0, open_low=True)),
        aggregator,
        on_policy="gated policy gradient",
        status="reconstruction",
    )
