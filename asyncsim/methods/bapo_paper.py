"""BAPO, paper form (a scan of the step's tokens): clip bounds raised until positive advantages have their share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods import _adaptive, _bapo
from asyncsim.methods._adaptive import flat
from asyncsim.methods._bapo import Searched
from asyncsim.methods._method import Method


@dataclass(frozen=True, kw_only=True)
class BapoPaper(Searched):
    """The upper bound rises first, then the lower one, up to a share of the sum; see `bapo_paper`."""

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        """positive >= target (positive + negative)."""
        target = flat(self.target)
        target = target if isinstance(target, float) else target.unsqueeze(-1)
        return positive >= target * (positive + negative) * (1.0 - _bapo.ROUNDING)

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """All upper bounds at the first lower one, then the other lower bounds at the last upper one."""
        return [0] * highs + [*range(1, lows)], [*range(highs)] + [highs - 1] * (lows - 1)


def bapo_paper(
    target: Any = 0.4,
    low: Any = 0.6,
    low_cap: Any = 0.9,
    high: Any = 1.2,
    high_cap: Any = 3.0,
    count: str = "code",
    low_step: Any = 0.02,
    high_step: Any = 0.05,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    scope: str = "step",
    micro_batches: int = 1,
) -> Method:
    """Balanced clipping: c_it = rho_it A_i inside [c_low, c_high], bounds searched until rho_+ >= target.

    rho_+ = sum_{A>0} |s| / sum |s| over tokens, s = rho A with the pessimistic clip: min(rho, c_high) A for A > 0,
    max(rho, c_low) A for A < 0 (`count` "code"). While rho_+ is below the target, c_high rises by high_step up to
    high_cap, then c_low by low_step up to low_cap. Read literally, raising c_low raises the sum of negative tokens and
    so lowers rho_+: once entered, that loop ends at its cap. `count` "gradient" counts what the gradient sees, 0
    beyond a bound, which rises all along. The clip closes outward only, as PPO's. A
    reconstruction in its edges: the paper takes no shorter last step to a cap and stops once c_low cannot be raised.

    Arguments: `target` in [0, 1], a share (0.4; the repository says 0.5); `low`, `low_cap` in [0, 1], `high`,
    `high_cap` >= 1, where bounds start and end (0.6, 0.9, 1.2, 3); `low_step`, `high_step` > 0 (0.02, 0.05); each a
    pure number or one per replicate; `count`; `anchor` of rho; `advantage` (default group mean); `aggregator`;
    `scope` "step", or "micro_batch" with their number `micro_batches` (samples in order). Returns a `Method` whose
    weight is `[R, G, N, T]`; it reports bapo_low, bapo_high, bapo_share (means over parts), bapo_nonfinite (parts
    without finite sums: weights 0). Raises `InputError` for bounds that start above their cap or more than 1000 steps
    below it, values outside their range, unknown names, or micro-batches in scope "step". Source: 2510.18927,
    algorithm 1.

    >>> bapo_paper().describe()["high_cap"]
    3.0
    """
    remedy = "give the share of positive advantages in the signal"
    knobs = _bapo.settings(target, (low, low_cap, low_step), (high, high_cap, high_step), count, remedy, 1.0)
    weight = BapoPaper(**knobs, **_adaptive.scoped(scope, micro_batches))
    return Method(
        "bapo_paper",
        or_default(advantage, advantages.group_mean()),
        weight,
        aggregator,
        anchor=anchor,
        status="reconstruction",
    )
