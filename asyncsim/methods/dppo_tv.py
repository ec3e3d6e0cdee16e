"""DPPO with binary total variation: tokens whose probability has moved too far outward are masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import Truncated, near, span, truncation


@dataclass(frozen=True)
class TotalVariation(Truncated):
    """c = min(r, cap) A where pi - mu is small enough on the side of A; see `dppo_tv`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    def inside(self, step: Step, advantage: Tensor) -> Tensor:
        """1 where a token may still move along A, `[R, G, N, T]`."""
        return near(step, advantage, self.low, self.high)


def dppo_tv(
    low: Any = 0.2, high: Any = 0.2, cap: Any = 10.0, advantage: Advantage | None = None, aggregator: str = "token_mean"
) -> Method:
    """Divergence PPO, binary total variation: c_it = min(r_it, cap) A_i where M_it holds, 0 elsewhere.

    M = [q <= high] for A > 0 and [q >= -low] otherwise, q = pi - mu of the token that was drawn. In this trust region a
    ratio of 5 may be nothing (0.001 to 0.005), and one of 1.3 a lot (0.7 to 0.91). |q| is the total variation between
    the two policies when all other tokens are seen as one. Only moves outward are masked; the way back stays open. The
    truncated ratio is detached.

    Arguments: `low` and `high` >= 0, probabilities (or one per replicate); `cap` >= 1 (or one per replicate), None for
    none; `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant".
    Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range and unknown
    names. Source: 2602.04879, binary form.

    >>> dppo_tv(high=0.3).describe()["high"]
    0.3
    """
    weight = TotalVariation(truncation(cap), *span(low, high, "the probability"))
    return Method("dppo_tv", or_default(advantage, advantages.group_mean()), weight, aggregator)
