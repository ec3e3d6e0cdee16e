"""GMPO: geometric mean of token ratios that are clipped, one by one, in log space."""

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
from asyncsim.methods._surrogates import zero_outside
from asyncsim.methods._weights import Weight


@dataclass(frozen=True)
class GeometricMeanOfClips(Weight):
    """c = exp(mean of clipped log ratios) A of the tokens that are not clipped; see `gmpo`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "geometric"  # type: ignore[misc]
    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """Geometric means of the token ratios to the anchor, none of them clipped, `[R, G, N, 1]`."""
        return ratios.usable(step.geometric(step.anchored))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Geometric mean of the clipped ratios times A, 0 for the tokens that are clipped."""
        log_ratio, up = step.anchored, advantage > 0
        lowest, highest = -per_sample(self.low), per_sample(self.high)
        inside = torch.where(up, log_ratio <= highest, log_ratio >= lowest)
        limited = torch.where(up, log_ratio.clamp(max=highest), log_ratio.clamp(min=lowest))
        return zero_outside(ratios.usable(step.geometric(limited)) * advantage, inside)


def gmpo(
    low: Any = 0.4,
    high: Any = 0.4,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "sequence_mean",
) -> Method:
    """Geometric-mean policy optimization: c_it = exp(mean_k lbar_ik) A_i k_it.

    lbar = min(l, high) for A > 0 and max(l, -low) for A < 0, l the log ratio to the anchor; k = 1 for the tokens that
    this leaves as they are, else 0. The objective is (prod_t |min(rho A, clip(rho) A)|)^(1/T) sign(A) with rho clipped
    to [e^-low, e^high]; its gradient has the factor exp(mean lbar) A / T on every token whose log ratio is not cut off.
    The band is one of log ratios: 0.4 allows [0.67, 1.49], not [0.6, 1.4]. Where advantages differ from token to token,
    each token is clipped by the sign of its own.

    Arguments: `low` and `high` >= 0 in nats (or one per replicate); `anchor` of the ratio, "behavior" or "proximal";
    `advantage` (default group standard deviation); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for bounds outside their range,
    unknown names, and in a run with groups of one. Source: 2507.20673, equation 4.

    >>> gmpo().describe()["high"]
    0.4
    """
    weight = GeometricMeanOfClips(
        knob("low", low, "the lower bound of the log ratio is -low", 0.0),
        knob("high", high, "the upper bound of the log ratio is high", 0.0),
    )
    return Method("gmpo", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)
