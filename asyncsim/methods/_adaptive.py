"""Statistics and searches over the tokens of a step or of its micro-batches, for thresholds that are set from data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.base.parts import Knob, choice, whole
from asyncsim.methods._weights import Weight, movable, times
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Parts:
    """Tokens of a step rearranged to rows `[R, K, n]`: one row for the full step, or one per micro-batch.

    Micro-batches take the samples in order, all tokens of a sample together. The first ones are larger by one sample
    where K does not divide their number. `mass` `[R, K, n]`: the share of each token in the step, 0 for masked ones.
    """

    def __init__(self, step: Step, count: int) -> None:
        self.shape, self.count = step.mask.shape, count
        filled = self._split(step, self.shape[1] * self.shape[2]) if count > 1 else None
        self.mass = self.rows(step.share)
        if filled is not None:
            self.mass = self.mass * filled.repeat_interleave(self.shape[3], -1)
        self.equal = bool(((step.mass == step.mass.max()) | (step.mass == 0)).all())
        """Whether all samples that count have the same mass: then sorted masses are known without an order."""

    def _split(self, step: Step, samples: int) -> Tensor:
        """Assign samples to micro-batches; return which positions of a row are filled, `[K, max samples]`."""
        count, remedy = self.count, "use fewer micro-batches, or scope='step'"
        checks.require(count <= samples, "micro_batches", count, f"at most the samples of a step, {samples}", remedy)
        bound = "1 for a population, whose samples have no order"
        checks.require(math.isfinite(step.size), "micro_batches", count, bound, remedy)
        sizes = torch.tensor([samples // count + (k < samples % count) for k in range(count)])
        place, device = torch.arange(int(sizes[0])), step.mask.device
        index = (sizes.cumsum(0) - sizes).unsqueeze(-1) + place
        self.index = index.clamp(max=samples - 1).to(device)
        self.part = torch.repeat_interleave(torch.arange(count), sizes).to(device)
        return (place < sizes.unsqueeze(-1)).to(device)

    def rows(self, values: Tensor) -> Tensor:
        """Rearrange token values `[R, G, N, T]` to rows `[R, K, n]`; smaller micro-batches are padded with mass 0."""
        if self.count == 1:
            return values.reshape(values.shape[0], 1, -1)
        samples = values.reshape(values.shape[0], -1, self.shape[3])
        return samples[:, self.index].reshape(values.shape[0], self.count, -1)

    def back(self, numbers: Tensor) -> Tensor:
        """Broadcast one number per micro-batch, `[R, K]`, to its samples: `[R, 1, 1, 1]` or `[R, G, N, 1]`."""
        if self.count == 1:
            return numbers.reshape(-1, 1, 1, 1)
        return numbers[:, self.part].reshape(-1, *self.shape[1:3], 1)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Weight):
    """Score weight that depends on a statistic of the full step (`scope` "step") or of each micro-batch."""

    scope: str = "step"
    micro_batches: int = 1

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True
    late: ClassVar[Mapping[str, Knob]] = {
        "scope": choice("step", "micro_batch", words="over what the statistic is computed"),
        "micro_batches": whole(1, "say into how many parts a step is split", 1),
    }

    def __post_init__(self) -> None:
        fits = self.scope == "micro_batch" or self.micro_batches == 1
        bound = "1 with scope='step', which sees all tokens together"
        remedy = "say scope='micro_batch', or leave micro_batches out"
        checks.require(fits, "micro_batches", self.micro_batches, bound, remedy)

    def applied(self, step: Step) -> Tensor:
        """Token ratios to the anchor policy, which weight every kept token whatever the threshold."""
        return ratios.usable(step.anchored)

    def parts(self, step: Step) -> Parts:
        """Tokens of a step, split into the micro-batches over which the statistic is computed."""
        return Parts(step, self.micro_batches)


class Ordered(NamedTuple):
    """Values with positive mass in ascending order, `[R, K, n]`, followed by NaN.

    `mass`: their masses, `[R, K, n]`, or `[R, K, 1]` where all are equal; `number`: how many there are, `[R, K, 1]`.
    """

    value: Tensor
    mass: Tensor
    number: Tensor

    def masses(self) -> Tensor:
        """Cumulative mass up to and including each sorted value, float64 `[R, K, n]`; a new tensor."""
        if self.mass.shape == self.value.shape:
            return self.mass.cumsum(-1, dtype=torch.float64)
        return torch.ones_like(self.value, dtype=torch.float64).cumsum_(-1).clamp_(max=self.number).mul_(self.mass)

    def squares(self) -> Tensor:
        """Cumulative sum of mass times squared sorted value, float64 `[R, K, n]`; a new tensor."""
        squares = self.value.to(torch.float64, copy=True)
        if int(self.number.min()) < squares.shape[-1]:
            # A NaN among the values that count must be seen in their sum; what is filled in behind them must not.
            squares.masked_fill_(torch.arange(squares.shape[-1], device=squares.device) >= self.number, 0.0)
        return squares.square_().mul_(self.mass).cumsum_(-1)

    @property
    def broken(self) -> Tensor:
        """Whether a value with positive mass is NaN, which sorting puts last, `[R, K]`."""
        last = self.value.gather(-1, (self.number - 1).clamp(min=0))
        return (last.isnan() & (self.number > 0))[..., 0]

    def at(self, column: Tensor, position: Tensor) -> Tensor:
        """Entry of a column of sorted values at a position `[R, K]`; 0 before the first."""
        entry = column.gather(-1, position.clamp(0, column.shape[-1] - 1).unsqueeze(-1))[..., 0]
        return torch.where(position >= 0, entry, torch.zeros_like(entry))


def ordered(values: Tensor, present: Tensor | None, parts: Parts) -> Ordered:
    """Sort values `[R, K, n]` of the selected tokens (None: all) in ascending order; `values` is overwritten."""
    absent = parts.mass <= 0
    absent = absent if present is None else absent.logical_or_(~present)
    number = absent.shape[-1] - absent.sum(-1, keepdim=True)
    length = max(1, int(number.max()))
    values.masked_fill_(absent, math.nan)
    if parts.equal:
        # With equal masses no permutation has to be known.
        if values.device.type == "cpu":
            # torch's sort on the CPU carries an order that is not asked for, at thirty times the price.
            values.numpy().sort(axis=-1)
        else:
            values = values.sort(-1).values
        return Ordered(values[..., :length].clone(), parts.mass.amax(-1, keepdim=True), number)
    cpu = values.device.type == "cpu"
    order = (torch.from_numpy(np.argsort(values.numpy(), axis=-1)) if cpu else values.argsort(-1))[..., :length]
    return Ordered(values.gather(-1, order), parts.mass.masked_fill(absent, 0.0).gather(-1, order), number)


class Cut(NamedTuple):
    """Threshold `[R, K]` above which a micro-batch's highest values are dropped, and the share kept at the threshold.

    `value`: the largest that is left, infinite where nothing is dropped. `share`: how much of the tokens that have it
    is left: which of several equal tokens goes first is nobody's choice, and this is the mean over all orders.
    """

    value: Tensor
    share: Tensor

    def parted(self, step: Step, parts: Parts, size: Tensor, broken: Tensor) -> tuple[Tensor, Tensor]:
        """Mask of tokens with `size` `[R, G, N, T]` above the threshold, and the fraction kept of each other token."""
        value, share = parts.back(self.value), parts.back(self.share).to(size.dtype)
        closed = size > value
        report(step, "m2po", self.value, closed, broken)
        if (share < 1.0).any():
            share = torch.where(size == value, share, torch.ones_like(share))
            step.statistics["m2po_dropped"] += (step.share * (1.0 - share)).sum((1, 2, 3), dtype=torch.float64)
        return closed.logical_or_(parts.back(broken)), share


def cut(step: Step, order: Ordered, tau: Any, rest: tuple[Tensor, Tensor] | None = None, *, below: bool = False) -> Cut:
    """Drop the highest values one by one until the mean square of the rest is at most tau.

    `rest`: mass and squares of what stays whatever its size, `[R, K]`. `below`: below tau, and one token stays.
    """
    first = rest or (torch.zeros_like(order.number[..., 0], dtype=torch.float64),) * 2

    def masses() -> Tensor:
        return order.masses().add_(first[0].unsqueeze(-1))

    def smallest(count: Tensor, column: Tensor, always: Tensor = first[0]) -> Tensor:
        """Sum `[R, K]` over the rest and the `count` smallest values."""
        return torch.where(count > 0, order.at(column, count - 1), always)

    square, goal = order.squares().add_(first[1].unsqueeze(-1)), masses().mul_(per_sample(tau, 3))
    fits = square < goal if below else square <= goal
    del goal
    number = torch.where(fits.any(-1), fits.shape[-1] - fits.flip(-1).to(torch.int8).argmax(-1), 0)
    if below and step.unit is None:
        number = number.clamp(min=1)
    value, after = order.at(order.value, number - 1), order.at(order.value, number)
    room = torch.zeros_like(first[0])
    if step.unit is not None:
        # A cell stands for several samples: the next one is left in part, by whole tokens where there are such.
        excess = after.double().square() - per_sample(tau, 2)
        short = per_sample(tau, 2) * smallest(number, masses()) - smallest(number, square, first[1])
        room = torch.where(excess > 0, short.clamp(min=0.0) / excess, room)
        room = torch.where(step.unit > 0, (room / step.unit).floor() * step.unit, room)
        room = torch.where(number > 0, room, torch.maximum(room, step.unit)) if below else room
        value = torch.where(room > 0, after, value)
    whole, share = fits[..., -1] | order.value[..., 0].isnan(), torch.ones_like(first[0])
    if (~whole & (value == after)).any():
        # Which of equal ones are left does not matter: each keeps their share.
        mass = masses()
        lower = smallest((order.value < value.unsqueeze(-1)).sum(-1), mass)
        upper = smallest((order.value <= value.unsqueeze(-1)).sum(-1), mass)
        part = (smallest(number, mass) + room - lower) / (upper - lower)
        share = torch.where(whole | (upper <= lower), share, part)
    return Cut(value.masked_fill(whole, math.inf), share)


def outward(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Log ratio times the sign of the advantage, `[R, G, N, T]`: positive where a step would increase its size."""
    return log_ratio * advantage.sign()


def harmful(signed: Tensor, advantage: Tensor) -> Tensor:
    """Mask of tokens whose log ratio a step would increase in size; NaN counts, so that every statistic sees it."""
    return ~(signed <= 0) & (advantage != 0)


def widening(log_ratio: Tensor, advantage: Tensor, parts: Parts) -> Ordered:
    """Log ratios whose size a step would increase, in ascending order of size, per micro-batch."""
    signed = outward(log_ratio, advantage)
    return ordered(parts.rows(signed), parts.rows(harmful(signed, advantage)), parts)


def report(step: Step, prefix: str, theta: Tensor, closed: Tensor, broken: Tensor) -> None:
    """Record the minimum threshold, the fraction of tokens with weight 0, and how many micro-batches are not finite."""
    step.statistics[f"{prefix}_theta"] = theta.amin(-1).double()
    step.statistics[f"{prefix}_dropped"] = (step.share * closed.view(torch.uint8)).sum((1, 2, 3), dtype=torch.float64)
    step.statistics[f"{prefix}_nonfinite"] = broken.sum(-1).double()


def stopped(weight: Tensor, closed: Tensor) -> Tensor:
    """Set the weight of closed tokens, which must not be shared, to exactly 0, even if it is infinite or NaN."""
    # Few tensors of one number a part have anything to close; looking is cheap, filling is not.
    idle = closed.numel() < weight.numel() and not closed.any()
    return weight if idle else weight.masked_fill_(closed, 0.0)


STEPS = 1000
"""Bounds that are tried on either side, at most: every one of them is compared with every token beyond the first."""
ROUNDING = 1e-12
"""A goal that is missed by less is reached: on-policy group means balance exactly but for rounding."""


@dataclass(frozen=True, kw_only=True)
class Searched(Adaptive):
    """PPO's clip, c = rho A while open, at bounds [low, high] found by a search that subclasses define."""

    target: Any = field(metadata=MARK)
    low: Any = field(metadata=MARK)
    low_cap: Any = field(metadata=MARK)
    low_step: Any = field(metadata=MARK)
    high: Any = field(metadata=MARK)
    high_cap: Any = field(metadata=MARK)
    high_step: Any = field(metadata=MARK)
    count: str

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Ratio times advantage where the clip at the bounds found by the search is open, else 0."""
        parts = self.parts(step)
        low, high, broken = self._search(step, parts, advantage)
        ratio = self.applied(step)
        lowest, highest = (parts.back(bound).to(ratio.dtype) for bound in (low, high))
        weight = times(self.open(ratio, advantage, lowest, highest).mul_(ratio), advantage)
        return stopped(weight, parts.back(broken))

    def open(self, ratio: Tensor, advantage: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """1 where PPO's pessimistic clip passes a token, 0 elsewhere; a new tensor."""
        return movable(ratio, advantage, lowest, highest)

    def size(self, step: Step, advantage: Tensor) -> Tensor:
        """Factor of a token's ratio in the two sums that the search balances, `[R, G, N, T or 1]`."""
        return advantage.abs()

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Whether the search has reached its target, given the sums over positive and negative advantages."""
        raise NotImplementedError

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """Indices into the grids of lower and upper bounds, in the order in which the search tries them."""
        raise NotImplementedError

    def _search(self, step: Step, parts: Parts, advantage: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Bounds `[R, K]` of each part, and whether its sums are not finite, where the tightest bounds are used."""
        lows = _grid(self.low, self.low_cap, self.low_step, step)
        highs = _grid(self.high, self.high_cap, self.high_step, step)
        positive, negative = _sums(step, parts, advantage > 0, self.size(step, advantage), lows, highs, self.count)
        row, column = self.path(lows.shape[-1], highs.shape[-1])
        low, high = lows[:, row].unsqueeze(1), highs[:, column].unsqueeze(1)
        positive, negative = positive[..., column], negative[..., row]
        reached = self.reached(positive, negative)
        last = reached.shape[-1] - 1
        first = torch.where(reached.any(-1), reached.to(torch.int8).argmax(-1), last).unsqueeze(-1)
        shape = (*reached.shape[:2], last + 1)
        broken = ~(positive + negative).isfinite().all(-1)
        bounds = [
            torch.where(broken, tight, bound.expand(shape).gather(-1, first)[..., 0])
            for bound, tight in ((low, low[..., -1]), (high, high[..., 0]))
        ]
        part = positive.gather(-1, first)[..., 0]
        both = part + negative.gather(-1, first)[..., 0]
        share = torch.where(both > 0, part / both, torch.full_like(both, torch.nan))
        step.statistics["bapo_low"], step.statistics["bapo_high"] = (bound.mean(-1) for bound in bounds)
        step.statistics["bapo_share"] = share.mean(-1)
        step.statistics["bapo_nonfinite"] = broken.sum(-1).double()
        return bounds[0], bounds[1], broken


def rising(**knobs: Any) -> None:
    """Refuse clip bounds that start above their cap, or too many steps below the cap."""
    for name in ("low", "high"):
        names = (name, f"{name}_cap", f"{name}_step")
        start, cap, step = (torch.as_tensor(knobs[key], dtype=torch.float64) for key in names)
        # Unequal lengths are refused by name where the replicates are known.
        if start.ndim and cap.ndim and start.shape != cap.shape:
            continue
        bound, remedy = f"at least {name} = {checks.shown(knobs[name])}", "bounds are only raised: start below the cap"
        checks.require(bool((start <= cap).all()), names[1], knobs[names[1]], bound, remedy)
        if step.ndim and (start.ndim or cap.ndim) and step.shape != (start if start.ndim else cap).shape:
            continue
        last = start + STEPS * step
        bound = f"at most {float(last.min()):g}, {STEPS} steps of {names[2]} from {name} = {checks.shown(knobs[name])}"
        near = bool((cap <= last * (1.0 + 1e-9)).all())
        checks.require(near, names[1], knobs[names[1]], bound, f"raise {names[2]}, or lower {names[1]}")


def _grid(start: Any, cap: Any, rise: Any, step: Step) -> Tensor:
    """Bounds start, start + rise, ... up to the cap, `[R or 1, n]`; shorter grids are padded with the cap."""
    device = step.mask.device
    start, cap, rise = (
        torch.as_tensor(per_sample(x, 2), dtype=torch.float64, device=device).reshape(-1, 1) for x in (start, cap, rise)
    )
    # A last step that only rounding asks for is none.
    steps = int(((cap - start) / rise - 1e-9).ceil().clamp(min=0).max())
    return torch.minimum(start + rise * torch.arange(steps + 1, device=device), cap)


def _sums(
    step: Step, parts: Parts, rises: Tensor, size: Tensor, lows: Tensor, highs: Tensor, count: str
) -> tuple[Tensor, Tensor]:
    """Sums over tokens with A > 0 for every upper bound, and over others for every lower bound, `[R, K, n]`.

    Inside its bound a token contributes ratio size; beyond it bound size ("code"), or nothing ("gradient"). A NaN is
    beyond no bound, so that no sum can miss it.
    """
    up, size = (parts.rows(x.expand(step.mask.shape)) for x in (rises, size))
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
    """Sums of weight times ratio and of weight, by the gap between bounds, `[R, K, 2 edge]`.

    Tokens without a positive advantage stand behind the others.
    """
    below = torch.full((), -torch.inf, dtype=ratio.dtype, device=ratio.device)
    # A ratio on a bound is inside: to be at least a lower one is to be above the number before it.
    bounds = (torch.nextafter(lows.to(ratio.dtype), below), highs.to(ratio.dtype))
    replicates, edge = max(len(bound) for bound in bounds), lows.shape[-1] + highs.shape[-1] + 1
    grid = torch.cat([bound.expand(replicates, -1) for bound in bounds], -1)
    gap = torch.bucketize(ratio, grid[0]) if replicates == 1 else (grid[row // shape[1]] < ratio.unsqueeze(-1)).sum(-1)
    place = 2 * edge * row + gap + edge * ~up
    sums = torch.zeros((2, shape[0] * shape[1] * 2 * edge), dtype=torch.float64, device=ratio.device)
    columns = (weight * ratio).masked_fill_(weight == 0, 0.0), weight
    return [
        into.scatter_add_(0, place, column.double()).reshape(*shape, 2 * edge)
        for into, column in zip(sums, columns, strict=True)
    ]
