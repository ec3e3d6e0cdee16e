"""Kimi k1.5: policy mirror descent as a regression of the sequence, c = A - tau L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods import _regression
from asyncsim.methods._method import Method
from asyncsim.methods._regression import Residual


@dataclass(frozen=True, kw_only=True)
class Kimi(Residual):
    """c = A - tau L, or A - 2 tau L without the half of the printed penalty; see `kimi`."""

    half: bool = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """A less the slope of the squared log ratio of the sequence."""
        strength = per_sample(self.tau) * (1.0 if self.half else 2.0)
        return _regression.closed(step, advantage - strength * step.sequence(step.anchored))


def kimi(
    tau: Any = 0.1,
    half: bool = True,
    anchor: str = "proximal",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_sum",
) -> Method:
    """Sequence regression: the gradient of A_i log pi(y_i) - (tau/2) L_i^2, so c_i = A_i - tau L_i.

    L_i = sum_t log(pi/anchor), the anchor being the policy at the start of the batch; it is blind to staleness unless
    it is the behavior policy. `half` False leaves out the 1/2, as two public codes do: c_i = A_i - 2 tau L_i. A sample
    whose L is not finite has weight 0.

    Arguments: `tau` >= 0, reward per nat (0.1), a number or one per replicate; `half`; `anchor` "proximal" or
    "behavior"; `advantage` (default group mean); `aggregator`. Returns a `Method` whose weight is `[R, G, N, 1]`; it
    reports residual_nonfinite, a count of samples. Raises `InputError` for a tau below 0 or unknown names. Source:
    2501.12599.

    >>> kimi().describe()["anchor"]
    'proximal'
    """
    weight = Kimi(
        level="sequence",
        tau=knob("tau", tau, "give the price of squared nats in units of reward", 0.0),
        half=checks.boolean("half", half, "say whether the penalty is tau/2 L^2"),
    )
    return Method("kimi", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor=anchor)
