"""VESPO: a gamma-shaped weight of the sequence ratio, another one for each sign of the advantage."""

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
class Gamma(Weight):
    """c = W^k exp(lam (1 - W)) A; see `vespo`."""

    k_positive: Any = field(metadata=MARK)
    lam_positive: Any = field(metadata=MARK)
    k_negative: Any = field(metadata=MARK)
    lam_negative: Any = field(metadata=MARK)

    level: ClassVar[str] = "sequence"  # type: ignore[misc]

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """The weight for the sign of A, times A."""
        log_ratio = step.sequence(step.log_ratio).clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT)
        # 1 - W, to the last digit where W is close to 1.
        gap = -torch.expm1(log_ratio)
        above = per_sample(self.k_positive) * log_ratio + per_sample(self.lam_positive) * gap
        below = per_sample(self.k_negative) * log_ratio + per_sample(self.lam_negative) * gap
        return torch.where(advantage >= 0, above, below).exp() * advantage


def vespo(
    k_positive: Any = 2.0,
    lam_positive: Any = 3.0,
    k_negative: Any = 3.0,
    lam_negative: Any = 2.0,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Variational sequence weight: c_i = phi(W_i) A_i, phi(W) = W^k exp(lam (1 - W)), W_i = prod_t r_it, detached.

    phi(1) = 1, and phi falls to 0 on both sides of its peak at k/lam, whose height is (k/lam)^k e^(lam - k): 1.21 at
    0.67 for A >= 0, 1.24 at 1.5 for A < 0. A ratio slightly below 1 is thus weighted up for A > 0. Computed as
    exp(k L + lam (1 - e^L)) with L = log W limited to +-20.

    Arguments: `k_positive`, `lam_positive` for A >= 0 and `k_negative`, `lam_negative` for A < 0, pure numbers (or one
    per replicate), k >= 0 and lam > 0; `advantage` (default group standard deviation); `aggregator`, "sequence_sum",
    "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, 1]`. Raises `InputError`
    for numbers outside their range, unknown names, and in a run with groups of one. Source: 2602.10693.

    >>> vespo().describe()["k_negative"]
    3.0
    """
    weight = Gamma(
        knob("k_positive", k_positive, "the weight is W^k at small ratios", 0.0),
        knob("lam_positive", lam_positive, "the weight falls as exp(-lam W)", 0.0, open_low=True),
        knob("k_negative", k_negative, "the weight is W^k at small ratios", 0.0),
        knob("lam_negative", lam_negative, "the weight falls as exp(-lam W)", 0.0, open_low=True),
    )
    return Method("vespo", or_default(advantage, advantages.group_std()), weight, aggregator)
