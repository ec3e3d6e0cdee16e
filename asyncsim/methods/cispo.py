"""CISPO: clipped importance weight on the score, so that no token loses its gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning import ratios
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import truncation
from asyncsim.methods._weights import Weight, at_most


@dataclass(frozen=True)
class ClippedWeight(Weight):
    """c = clip(rho) A; see `cispo`."""

    low: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        """Clipped token ratios to the anchor, `[R, G, N, T]`."""
        lowest, highest = 1.0 - per_sample(self.low), 1.0 + per_sample(self.high)
        return ratios.usable(step.anchored).clamp(min=lowest).clamp(max=highest)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """The same times A."""
        return self.applied(step) * advantage


@dataclass(frozen=True)
class _Corrected(ClippedWeight):
    cap: Any = field(metadata=MARK)

    def applied(self, step: Step) -> Tensor:
        return super().applied(step) * at_most(ratios.usable(step.behavior_log_ratio), self.cap)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        # A method's anchor can be replaced after it was made.
        _once(step.anchor)
        return super().score_weight(step, advantage)


def cispo(
    low: Any = 1.0,
    high: Any = 4.0,
    anchor: str = "behavior",
    cap: Any = None,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Clipped importance-sampling weight: c_it = clip(rho_it, 1 - low, 1 + high) A_i, the weight detached.

    PPO drops a token outside its band. CISPO keeps it with the weight of the bound, on both sides and for both signs of
    A. The lower side is open by default (low >= 1): with low = 0.2 tokens that have become improbable would be raised
    to the weight 0.8. With the anchor "proximal" rho sees only what the batch's own updates have changed; `cap` then
    multiplies by the truncated rollout weight min(pi_prox/mu, cap).

    Arguments: `low` and `high` >= 0, pure numbers (or one per replicate); `anchor` of the ratio, "behavior" or
    "proximal"; `cap` >= 1 (or one per replicate) on the rollout weight, None for no such weight; `advantage` (default
    group standard deviation); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a
    `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for numbers outside their range, unknown names, a cap
    beside the anchor "behavior", and in a run with groups of one. Source: 2506.13585, equations 4 and 5.

    >>> cispo(anchor="proximal", cap=2.0).describe()["cap"]
    2.0
    """
    low = knob("low", low, "the lower bound is 1 - low, open from 1 on", 0.0)
    high = knob("high", high, "the upper bound is 1 + high", 0.0)
    weight = ClippedWeight(low, high)
    if cap is not None:
        _once(anchor)
        weight = _Corrected(low, high, truncation(cap))
    return Method("cispo", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)


def _once(anchor: str) -> None:
    checks.require(
        anchor != "behavior",
        "cap",
        "a rollout weight beside anchor='behavior'",
        "left out: the ratio to behavior contains that weight already",
        "use anchor='proximal', or cap=None",
    )
