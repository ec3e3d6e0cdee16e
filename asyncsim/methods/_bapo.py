"""A search for clip bounds that give tokens of positive advantage their share of a step's signal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK
from asyncsim.methods import _adaptive
from asyncsim.methods._adaptive import Adaptive, Parts
from asyncsim.methods._weights import movable, times
from asyncsim.step.step import Step

STEPS = 1000
"""Bounds that are tried on either side, at most: every one of them is compared with every token beyond the first."""
ROUNDING = 1e-12
"""A goal that is missed by less is reached: on-policy group means balance exactly but for rounding."""


@dataclass(frozen=True, kw_only=True)
class Searched(Adaptive):
    """c = rho A where the clip at [low, high] is open, the bounds found by a search; subclasses say for what."""

    target: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    low_cap: Any = field(metadata=MARK)
    low_step: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    high_cap: Any = field(metadata=MARK)
    high_step: Any = field(metadata=MARK)
    count: str

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times A where the clip that was found is open."""
        parts = self.parts(step)
        low, high, broken = self._search(step, parts, advantage)
        ratio = self.applied(step)
        lowest, highest = (parts.back(bound).to(ratio.dtype) for bound in (low, high))
        weight = times(self.open(ratio, advantage, lowest, highest).mul_(ratio), advantage)
        return _adaptive.stopped(weight, parts.back(broken))

    def open(self, ratio: Tensor, advantage: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """1 where PPO's pessimistic clip lets a token pass, 0 elsewhere; a new tensor."""
        return movable(ratio, advantage, lowest, highest)

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Whether the search is over, given sums of both signs."""
        raise NotImplementedError

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """Positions on the two grids of bounds, in the order in which they are tried."""
        raise NotImplementedError

    def _search(self, step: Step, parts: Parts, advantage: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bounds `[R, K]` of each part, and where the sums are not finite: there the tightest bounds."""
        # Sum the signal at every bound.
        lows = _grid(self.low, self.low_cap, self.low_step, step)
        highs = _grid(self.high, self.high_cap, self.high_step, step)
        positive, negative = _sums(step, parts, advantage, lows, highs, self.count)
        row, column = self.path(lows.shape[-1], highs.shape[-1])
        low, high = lows[:, row].unsqueeze(1), highs[:, column].unsqueeze(1)
        positive, negative = positive[..., column], negative[..., row]
        # Take the first bounds that reach the target.
        reached = self.reached(positive, negative)
        last = reached.shape[-1] - 1
        first = torch.where(reached.any(-1), reached.to(torch.int8).argmax(-1), last).unsqueeze(-1)
        shape = (*reached.shape[:2], last + 1)
        broken = ~(positive + negative).isfinite().all(-1)
        bounds = [
            torch.where(broken, tight, bound.expand(shape).gather(-1, first)[..., 0])
            for bound, tight in ((low, low[..., -1]), (high, high[..., 0]))
        ]
        # Report bounds and share of positive signal.
        part = positive.gather(-1, first)[..., 0]
        both = part + negative.gather(-1, first)[..., 0]
        share = torch.where(both > 0, part / both, torch.full_like(both, torch.nan))
        step.statistics["bapo_low"], step.statistics["bapo_high"] = (bound.mean(-1) for bound in bounds)
        step.statistics["bapo_share"] = share.mean(-1)
        step.statistics["bapo_nonfinite"] = broken.sum(-1).double()
        return bounds[0], bounds[1], broken


def rising(**knobs: Any) -> None:
    """Refuse bounds that start above their cap, or too many steps below it."""
    for name in ("low", "high"):
        start, cap = (torch.as_tensor(knobs[key], dtype=torch.float64) for key in (name, f"{name}_cap"))
        fits = start.ndim == 0 or cap.ndim == 0 or start.shape == cap.shape
        # Unequal lengths are refused by name where the replicates are known.
        checks.require(
            not fits or bool((start <= cap).all()),
            f"{name}_cap",
            knobs[f"{name}_cap"],
            f"at least {name} = {checks.shown(knobs[name])}",
            "bounds are only raised: start below the cap",
        )
        if fits:
            _limit_steps(knobs, name)


def _limit_steps(knobs: dict[str, Any], name: str) -> None:
    """Refuse a search of more than `STEPS` steps from a bound to its cap."""
    names = (name, f"{name}_cap", f"{name}_step")
    start, cap, step = (torch.as_tensor(knobs[key], dtype=torch.float64) for key in names)
    if step.ndim and (start.ndim or cap.ndim) and step.shape != (start if start.ndim else cap).shape:
        return  # refused by name where the replicates are known
    last = start + STEPS * step
    bound = f"at most {float(last.min()):g}, {STEPS} steps of {names[2]} from {name} = {checks.shown(knobs[name])}"
    near = bool((cap <= last * (1.0 + 1e-9)).all())
    checks.require(near, names[1], knobs[names[1]], bound, f"raise {names[2]}, or lower {names[1]}")


def _grid(start: Any, cap: Any, rise: Any, step: Step) -> Tensor:
    """Bounds start, start + rise, ... up to the cap, `[R or 1, n]`; where a replicate needs fewer, the cap again."""
    device = step.mask.device
    start, cap, rise = (
        torch.as_tensor(_adaptive.flat(x), dtype=torch.float64, device=device).reshape(-1, 1)
        for x in (start, cap, rise)
    )
    # A last step that only rounding asks for is none.
    steps = int(((cap - start) / rise - 1e-9).ceil().clamp(min=0).max())
    return torch.minimum(start + rise * torch.arange(steps + 1, device=device), cap)


def _sums(
    step: Step, parts: Parts, advantage: Tensor, lows: Tensor, highs: Tensor, count: str
) -> tuple[Tensor, Tensor]:
    """What positive advantages contribute for every upper bound and negative ones for every lower, `[R, K, n]`.

    Inside its bound a token contributes ratio |A|; beyond it bound |A| ("code"), or nothing ("gradient"). A NaN is
    beyond no bound, so that no sum can miss it.
    """
    up, size = (parts.rows(x.expand(step.mask.shape)) for x in (advantage > 0, advantage.abs()))
    weight = parts.mass * size
    del size
    # Not the limited ratio: an absurd one must be seen.
    ratio = parts.rows(step.anchored).exp()
    first, last = (bound.to(ratio.dtype).reshape(-1, 1, 1) for bound in (highs[:, 0], lows[:, -1]))
    far = (ratio > first).logical_and_(up).logical_or_((ratio < last).logical_and_(~up))
    # Most tokens are inside every bound that is tried; only the others have to be sorted.
    index = far.flatten().nonzero()[:, 0]
    inside, outside = _binned(
        index // far.shape[-1], lows, highs, far.shape[:2], *(x.flatten()[index] for x in (ratio, up, weight))
    )
    near = ratio.mul_(weight).masked_fill_(far.logical_or_(weight == 0), 0.0)
    del ratio, weight
    plus, minus = ((near * side.view(torch.uint8)).sum(-1, keepdim=True, dtype=torch.float64) for side in (up, ~up))
    n, edge = lows.shape[-1], lows.shape[-1] + highs.shape[-1] + 1
    # Gap j of a positive token: below bound j. Gap j of a negative one: at or above bound j - 1.
    positive = plus + inside[..., :edge].cumsum(-1)[..., n : edge - 1]
    negative = minus + inside[..., edge:].flip(-1).cumsum(-1).flip(-1)[..., 1 : n + 1]
    if count == "code":
        above = outside[..., :edge].flip(-1).cumsum(-1).flip(-1)[..., n + 1 :]
        below = outside[..., edge:].cumsum(-1)[..., :n]
        positive, negative = positive + above * highs.unsqueeze(1), negative + below * lows.unsqueeze(1)
    return positive, negative


def _binned(
    row: Tensor, lows: Tensor, highs: Tensor, shape: tuple[int, ...], ratio: Tensor, up: Tensor, weight: Tensor
) -> list[Tensor]:
    """Sums of weight ratio and of weight by the gap between bounds, `[R, K, 2 edge]`.

    Tokens without a positive advantage stand behind the others.
    """
    below = torch.full((), -torch.inf, dtype=ratio.dtype, device=ratio.device)
    # A ratio on a bound is inside: to be at least a lower one is to be above the number before it.
    bounds = (torch.nextafter(lows.to(ratio.dtype), below), highs.to(ratio.dtype))
    replicates, edge = max(len(bound) for bound in bounds), lows.shape[-1] + highs.shape[-1] + 1
    grid = torch.cat([bound.expand(replicates, -1) for bound in bounds], -1)
    if replicates == 1:
        gap = torch.bucketize(ratio, grid[0])
    else:
        gap = (grid[row // shape[1]] < ratio.unsqueeze(-1)).sum(-1)
    place = 2 * edge * row + gap + edge * ~up
    sums = torch.zeros((2, shape[0] * shape[1] * 2 * edge), dtype=torch.float64, device=ratio.device)
    columns = (weight * ratio).masked_fill_(weight == 0, 0.0), weight
    return [
        into.scatter_add_(0, place, column.double()).reshape(*shape, 2 * edge)
        for into, column in zip(sums, columns, strict=True)
    ]
