"""SAPO: a soft gate in place of PPO's clip."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight, by_sign, times


@dataclass(frozen=True)
class SoftGate(Weight):
    """c = 4 S (1 - S) rho A with S = sigmoid(tau (rho - 1)); see `sapo`."""

    positive: Any = field(metadata=MARK)
    negative: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A times the slope of the gate."""
        ratio = ratios.usable(step.anchored)
        at = times(ratio - 1.0, by_sign(advantage, self.positive, self.negative))
        # 1 - S as S of the negative: no digits are lost where the gate is shut.
        slope = torch.sigmoid(at).mul_(at.neg_().sigmoid_())
        return times(slope.mul_(ratio), 4.0 * advantage)


def sapo(
    positive: Any = 1.0,
    negative: Any = 1.05,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_mean",
) -> Method:
    """Soft adaptive policy optimization: c_it = 4 S (1 - S) rho_it A_i, S = sigmoid(tau (rho_it - 1)).

    The gradient of (4/tau) sigmoid(tau (rho - 1)) A, equal to rho sech^2(tau (rho - 1)/2) A. At rho = 1 it is A, but
    the weight still rises above 1: for tau = 1 to 1.57 near rho = 2, then it falls to 0.

    Arguments: `positive`, tau for A > 0, and `negative`, tau for A <= 0, > 0, pure numbers (or one per replicate);
    `anchor` of the ratio, "behavior" or "proximal"; `advantage` (default group standard deviation); `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, T]`.
    Raises `InputError` for a tau that is not positive, unknown names, and in a run with groups of one. Source:
    2511.20347.

    >>> sapo().describe()["negative"]
    1.05
    """
    weight = SoftGate(
        knob("positive", positive, "tau is the steepness of the gate", 0.0, open_low=True),
        knob("negative", negative, "tau is the steepness of the gate", 0.0, open_low=True),
    )
    return Method("sapo", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)
