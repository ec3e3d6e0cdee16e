"""GIPO: token ratios damped by a Gaussian of the log ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight, times


@dataclass(frozen=True)
class GaussianTrust(Weight):
    """c = exp(-l^2/(2 sigma^2)) r A; see `gipo`."""

    sigma: Any = field(metadata=MARK)
    limit: float
    lowest: float
    highest: float

    level: ClassVar[str] = "token"  # type: ignore[misc]

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Damped ratio times A."""
        far = step.log_ratio.clamp(-self.limit, self.limit).div_(per_sample(self.sigma))
        log_ratio = step.log_ratio.clamp(math.log(self.lowest), math.log(self.highest))
        return times(log_ratio.sub_(far.square_().mul_(0.5)).exp_(), advantage)


def gipo(
    sigma: Any = 1.0,
    limit: float = 5.0,
    lowest: float = 0.0067,
    highest: float = 148.0,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Gaussian importance sampling: c_it = exp(-l_it^2 / (2 sigma^2)) r_it A_i, l = log r to behavior, all detached.

    The product peaks at l = sigma^2 with e^(sigma^2/2) and then falls, down to the clamps. They limit l to +-limit
    inside the Gaussian, and r to [lowest, highest] outside it. Without them the weight would rise again like r. Every
    token keeps a gradient. A reconstruction: constants and clamps are known from second hand.

    Arguments: `sigma` > 0 in nats (or one per replicate); `limit` > 0 in nats; `lowest` in (0, 1] and `highest` >= 1,
    pure numbers; `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range
    and unknown names. Source: 2603.03955.

    >>> gipo(sigma=0.5).describe()["sigma"]
    0.5
    """
    weight = GaussianTrust(
        knob("sigma", sigma, "give the width of the Gaussian in nats", 0.0, open_low=True),
        checks.real("limit", limit, "give the largest log ratio inside the Gaussian", 0.0, open_low=True),
        checks.real("lowest", lowest, "give the smallest ratio that is used, at most 1", 0.0, 1.0, open_low=True),
        checks.real("highest", highest, "give the largest ratio that is used, at least 1", 1.0),
    )
    return Method("gipo", or_default(advantage, advantages.group_mean()), weight, aggregator, status="reconstruction")
