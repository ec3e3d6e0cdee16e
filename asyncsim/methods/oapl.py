"""OAPL: squared regression of the sequence log ratio on the optimal advantage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods import _regression
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class Oapl(Weight):
    """c = 2 beta (A - beta L); see `oapl`."""

    beta: Any = field(metadata=MARK)

    level: ClassVar[str] = "sequence"  # type: ignore[misc]

    def applied(self, step: Step) -> Tensor:
        """What multiplies the advantage: 2 beta."""
        return 2.0 * per_sample(self.beta) * torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """2 beta times the residual."""
        beta = per_sample(self.beta)
        return _regression.closed(step, 2.0 * beta * (advantage - beta * step.sequence(step.log_ratio)))


def oapl(beta: Any = 1.0, advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Optimal-advantage regression: the gradient of -(r_i - V* - beta L_i)^2, so c_i = 2 beta (r_i - V* - beta L_i).

    L_i = sum_t log(pi/mu), V* = beta log mean_j exp(r_j / beta) over the group, whose population value is the
    normalizer of pi* = mu exp((r - V*)/beta): there every weight is 0, not only their mean. From N samples V* is
    biased. A sample whose L is not finite has weight 0. `advantage=soft_value(b)` gives V* another beta
    than the regression's, as implementations do. Reconstruction: the scale 2 beta and beta itself are
    unverified.

    Arguments: `beta` > 0, reward per nat (1, ours), a number or one per replicate; `advantage` (default
    `soft_value(beta)`); `aggregator`. Returns a `Method` whose weight is `[R, G, N, 1]`; it reports
    residual_nonfinite, a count of samples. Raises `InputError` for a beta that is not positive or an unknown
    aggregator. Source: 2602.19362, as described second hand.

    >>> oapl(beta=0.5).describe()["temperature"]
    0.5
    """
    checked = knob("beta", beta, "give a positive price of a nat in units of reward", 0.0, open_low=True)
    return Method(
        "oapl",
        or_default(advantage, advantages.soft_value(checked)),
        Oapl(checked),
        aggregator,
        on_policy="2 beta times the policy gradient",
        status="reconstruction",
    )
