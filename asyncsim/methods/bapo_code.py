"""BAPO as released (a scan of the step's tokens): lower clip bound raised first, dual clip."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base.knobs import MARK, knob
from asyncsim.methods import _adaptive, _bapo
from asyncsim.methods._adaptive import flat
from asyncsim.methods._bapo import Searched
from asyncsim.methods._method import Method
from asyncsim.methods._weights import by_sign


@dataclass(frozen=True, kw_only=True)
class BapoCode(Searched):
    """The lower bound rises first, then the upper one, up to a ratio of sums; see `bapo_code`."""

    dual: Any = field(metadata=MARK)

    def open(self, ratio: Tensor, advantage: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """1 where both the clip that was found and the dual clip let a token pass, 0 elsewhere."""
        below = torch.le(ratio, by_sign(advantage, math.inf, self.dual), out=torch.empty_like(ratio))
        return below.mul_(super().open(ratio, advantage, lowest, highest))

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        """positive >= target negative."""
        target = flat(self.target)
        target = target if isinstance(target, float) else target.unsqueeze(-1)
        return positive >= target * negative * (1.0 - _bapo.ROUNDING)

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """All lower bounds at the first upper one, then the other upper bounds at the last lower one."""
        return [*range(lows)] + [lows - 1] * (highs - 1), [0] * lows + [*range(1, highs)]


def bapo_code(
    target: Any = 1.0,
    low: Any = 0.6,
    low_cap: Any = 0.8,
    high: Any = 1.2,
    high_cap: Any = 2.0,
    dual: Any = 3.0,
    count: str = "code",
    low_step: Any = 0.05,
    high_step: Any = 0.05,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Balanced clipping as released: c_it = rho_it A_i inside [c_low, c_high], bounds searched until P >= target N.

    P = sum_{A>0} min(rho, c_high) A and N = sum_{A<0} max(rho, c_low) |A| over tokens (`count` "code"). While P <
    target N, c_low rises by low_step up to low_cap, then c_high by high_step up to high_cap. Raising c_low raises N, so
    the first loop moves away from its goal and always ends at the cap, once entered. `count` "gradient" counts nothing
    for tokens beyond a bound, which is what the gradient sees: then P/N rises all along. Tokens with A < 0 and rho >
    dual get no gradient (dual clip). A goal missed by less than 1e-12 of itself is reached, where the release asks for
    all of it.

    Arguments: `target` >= 0, ratio of sums (1; the released example 0.5); `low`, `low_cap` in [0, 1], `high`,
    `high_cap` >= 1, where bounds start and end (the example's 0.6, 0.8, 1.2, 2); `dual` > 1 (3); `low_step`,
    `high_step` > 0 (0.05; 0.05, the example 0.1); each a pure number or one per replicate; `count`; `anchor` of rho;
    `advantage` (default group mean); `aggregator`; `scope` "step", or "micro_batch" as released, with their number
    `micro_batches` (samples in order). Returns a `Method` whose weight is `[R, G, N, T]`; it reports bapo_low,
    bapo_high, bapo_share (means over parts), bapo_nonfinite (parts without finite sums: weights 0). Raises
    `InputError` for bounds that start above their cap or more than 1000 steps below it, values outside their range,
    unknown names, or micro-batches in scope "step". Source: 2510.18927, in the form of its released code.

    >>> bapo_code(count="gradient").describe()["count"]
    'gradient'
    """
    remedy = "give the wanted ratio of positive to negative signal"
    knobs = _bapo.settings(target, (low, low_cap, low_step), (high, high_cap, high_step), count, remedy, math.inf)
    dual = knob("dual", dual, "the dual clip lies above the ratio 1", 1.0, open_low=True)
    weight = BapoCode(dual=dual, **knobs, **_adaptive.scoped(scope, micro_batches))
    return Method("bapo_code", or_default(advantage, advantages.group_mean()), weight, aggregator, anchor=anchor)
