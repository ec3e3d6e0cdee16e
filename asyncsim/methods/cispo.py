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
from asyncsim.methods._weights import Weight, at_most, clipped


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


@dataclass(frozen=True)
class _Masked(ClippedWeight):
    """The same where PPO's clip of rho to [1 - mask_low, 1 + mask_high] is open, 0 where it is closed."""

    mask_low: Any = field(metadata=MARK)
    mask_high: Any = field(metadata=MARK)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        return _opened(self, self.applied(step), step, advantage)


@dataclass(frozen=True)
class _MaskedCorrected(_Corrected):
    mask_low: Any = field(metadata=MARK)
    mask_high: Any = field(metadata=MARK)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        _once(step.anchor)
        return _opened(self, self.applied(step), step, advantage)


def _opened(weight: Any, applied: Tensor, step: Step, advantage: Tensor) -> Tensor:
    lowest, highest = 1.0 - per_sample(weight.mask_low), 1.0 + per_sample(weight.mask_high)
    return clipped(applied, ratios.usable(step.anchored), advantage, lowest, highest)


def cispo(
    low: Any = 1.0,
    high: Any = 4.0,
    anchor: str = "behavior",
    cap: Any = None,
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
    mask: tuple[Any, Any] | None = None,
) -> Method:
    """Clipped importance-sampling weight: c_it = clip(rho_it, 1 - low, 1 + high) A_i, the weight detached.

    PPO drops a token outside its band. CISPO keeps it with the weight of the bound, on both sides and for both signs of
    A. The lower side is open by default (low >= 1): with low = 0.2 tokens that have become improbable would be raised
    to the weight 0.8. With the anchor "proximal" rho sees only what the batch's own updates have changed; `cap` then
    multiplies by the truncated rollout weight min(pi_prox/mu, cap). With `mask` = (below, above) the general form,
    c_it = clip(rho_it, 1 - low, 1 + high) A_i M_it: M = 0 for A > 0 where rho > 1 + above and for A < 0 where rho <
    1 - below, else 1. A mask inside an open clip, `cispo(1.0, 1e9, mask=(0.2, 0.2))`, is `ppo_clip(0.2, 0.2)`.

    Arguments: `low` and `high` >= 0, pure numbers (or one per replicate); `anchor` of the ratio, "behavior" or
    "proximal"; `cap` >= 1 (or one per replicate) on the rollout weight, None for no such weight; `advantage` (default
    group standard deviation); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant"; `mask`, None
    for none, or a pair of numbers >= 0 (each may be one per replicate). Returns a `Method` whose weight is
    `[R, G, N, T]`. Raises `InputError` for numbers outside their range, unknown names, a mask that is no pair, a cap
    beside the anchor "behavior", and in a run with groups of one. Source: 2506.13585, equations 4 and 5; 6 and 7 for
    the mask.

    >>> cispo(anchor="proximal", cap=2.0).describe()["cap"]
    2.0
    >>> cispo(mask=(0.2, 0.28)).describe()["mask_high"]
    0.28
    """
    low = knob("low", low, "the lower bound is 1 - low, open from 1 on", 0.0)
    high = knob("high", high, "the upper bound is 1 + high", 0.0)
    bounds = () if mask is None else _bounds(mask)
    weight = _Masked(low, high, *bounds) if bounds else ClippedWeight(low, high)
    if cap is not None:
        _once(anchor)
        caps = (low, high, truncation(cap))
        weight = _MaskedCorrected(*caps, *bounds) if bounds else _Corrected(*caps)
    return Method("cispo", or_default(advantage, advantages.group_std()), weight, aggregator, anchor=anchor)


def _bounds(mask: Any) -> tuple[Any, Any]:
    remedy = "write mask=(0.2, 0.28), how far below and above 1 a ratio may be"
    checks.require(isinstance(mask, (tuple, list)) and len(mask) == 2, "mask", mask, "None or two numbers", remedy)
    below, above = mask
    return knob("mask below", below, remedy, 0.0), knob("mask above", above, remedy, 0.0)


def _once(anchor: str) -> None:
    checks.require(
        anchor != "behavior",
        "cap",
        "a rollout weight beside anchor='behavior'",
        "left out: the ratio to behavior contains that weight already",
        "use anchor='proximal', or cap=None",
    )
