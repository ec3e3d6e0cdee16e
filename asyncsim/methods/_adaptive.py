"""Statistics over the tokens of a step, or of each of its micro-batches, for methods that set thresholds from data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import Knob, choice, whole
from asyncsim.methods._weights import Weight
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Parts:
    """The tokens of a step in rows `[R, K, n]`: one row for the whole step, or one for each of K micro-batches.

    Micro-batches take the samples in order, all tokens of a sample together. The first ones are larger by one sample
    where K does not divide their number. `mass` `[R, K, n]`: the share of each token in the step, 0 for masked ones.
    """

    def __init__(self, step: Step, count: int) -> None:
        self.shape = step.mask.shape
        self.count = count
        tokens = self.shape[3]
        if count > 1:
            filled = self._split(step, self.shape[1] * self.shape[2])
            self.mass = self.rows(step.share) * filled.repeat_interleave(tokens, -1)
        else:
            self.mass = self.rows(step.share)
        self.equal = bool(((step.mass == step.mass.max()) | (step.mass == 0)).all())
        """Whether all samples that count have the same mass: then sorted masses are known without an order."""

    def _split(self, step: Step, samples: int) -> Tensor:
        """Fix which samples each micro-batch has; returns which places of its row they fill, `[K, most samples]`."""
        count, remedy = self.count, "use fewer micro-batches, or scope='step'"
        checks.require(count <= samples, "micro_batches", count, f"at most the samples of a step, {samples}", remedy)
        checks.require(
            math.isfinite(step.size), "micro_batches", count, "1 for a population, whose samples have no order", remedy
        )
        sizes = torch.tensor([samples // count + (k < samples % count) for k in range(count)])
        place, device = torch.arange(int(sizes[0])), step.mask.device
        index = (sizes.cumsum(0) - sizes).unsqueeze(-1) + place
        self.index = index.clamp(max=samples - 1).to(device)
        self.part = torch.repeat_interleave(torch.arange(count), sizes).to(device)
        return (place < sizes.unsqueeze(-1)).to(device)

    def rows(self, values: Tensor) -> Tensor:
        """Values `[R, G, N, T]` in rows `[R, K, n]`; where a micro-batch is smaller, others stand at mass 0."""
        if self.count == 1:
            return values.reshape(values.shape[0], 1, -1)
        samples = values.reshape(values.shape[0], -1, self.shape[3])
        return samples[:, self.index].reshape(values.shape[0], self.count, -1)

    def back(self, numbers: Tensor) -> Tensor:
        """One number for each part `[R, K]`, where its samples stand: `[R, 1, 1, 1]` or `[R, G, N, 1]`."""
        if self.count == 1:
            return numbers.reshape(-1, 1, 1, 1)
        return numbers[:, self.part].reshape(-1, *self.shape[1:3], 1)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Weight):
    """A weight with a statistic of the whole step (`scope` "step") or of each micro-batch in it."""

    scope: str = "step"
    micro_batches: int = 1

    level: ClassVar[str] = "token"  # type: ignore[misc]
    anchored: ClassVar[bool] = True
    late: ClassVar[Mapping[str, Knob]] = {
        "scope": choice("step", "micro_batch", words="over what the statistic is computed"),
        "micro_batches": whole(1, "say into how many parts a step is split", 1),
    }

    def __post_init__(self) -> None:
        checks.require(
            self.scope == "micro_batch" or self.micro_batches == 1,
            "micro_batches",
            self.micro_batches,
            "1 with scope='step', which sees all tokens together",
            "say scope='micro_batch', or leave micro_batches out",
        )

    def applied(self, step: Step) -> Tensor:
        """Token ratios to the anchor: what is kept has this weight whatever the threshold."""
        return ratios.usable(step.anchored)

    def parts(self, step: Step) -> Parts:
        """The step's tokens as the statistic sees them."""
        return Parts(step, self.micro_batches)


class Ordered(NamedTuple):
    """Values of positive mass ascending `[R, K, n]`, NaN behind the last.

    `mass`: their masses, `[R, K, n]`, or `[R, K, 1]` where all are equal; `number`: how many there are, `[R, K, 1]`.
    """

    value: Tensor
    mass: Tensor
    number: Tensor

    def masses(self) -> Tensor:
        """Masses up to and including each value, float64 `[R, K, n]`; a new tensor."""
        if self.mass.shape == self.value.shape:
            return self.mass.cumsum(-1, dtype=torch.float64)
        return torch.ones_like(self.value, dtype=torch.float64).cumsum_(-1).clamp_(max=self.number).mul_(self.mass)

    def squares(self) -> Tensor:
        """Sums of mass times squared value up to and including each, float64 `[R, K, n]`; a new tensor."""
        squares = self.value.to(torch.float64, copy=True)
        if int(self.number.min()) < squares.shape[-1]:
            # A NaN among the values that count must be seen in their sum; what is filled in behind them must not.
            squares.masked_fill_(torch.arange(squares.shape[-1], device=squares.device) >= self.number, 0.0)
        return squares.square_().mul_(self.mass).cumsum_(-1)

    @property
    def broken(self) -> Tensor:
        """Whether a value that counts is NaN, `[R, K]`: it would stand last."""
        last = self.value.gather(-1, (self.number - 1).clamp(min=0))
        return (last.isnan() & (self.number > 0))[..., 0]

    def at(self, column: Tensor, position: Tensor) -> Tensor:
        """Entry of a column at a position `[R, K]`; 0 in front of the first."""
        entry = column.gather(-1, position.clamp(0, column.shape[-1] - 1).unsqueeze(-1))[..., 0]
        return torch.where(position >= 0, entry, torch.zeros_like(entry))


def ordered(values: Tensor, present: Tensor | None, parts: Parts) -> Ordered:
    """Values `[R, K, n]` of the tokens that are present (None: all) ascending; `values` are lost."""
    absent = parts.mass <= 0
    absent = absent if present is None else absent.logical_or_(~present)
    number = absent.shape[-1] - absent.sum(-1, keepdim=True)
    length = max(1, int(number.max()))
    values.masked_fill_(absent, math.nan)
    if parts.equal:
        # With equal masses no permutation has to be known.
        return Ordered(_sort(values)[..., :length].clone(), parts.mass.amax(-1, keepdim=True), number)
    order = _argsort(values)[..., :length]
    return Ordered(values.gather(-1, order), parts.mass.masked_fill(absent, 0.0).gather(-1, order), number)


class Cut(NamedTuple):
    """Where the largest values of each part are dropped, each `[R, K]`.

    `value`: the largest that is left, infinite where nothing is dropped. `share`: how much of the tokens that have it
    is left: which of several equal tokens goes first is nobody's choice, and this is the mean over all orders.
    """

    value: Tensor
    share: Tensor

    def parted(self, step: Step, parts: Parts, size: Tensor, broken: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of this `size` `[R, G, N, T]` that are dropped, and how much is left of each other one; reports."""
        value, share = parts.back(self.value), parts.back(self.share).to(size.dtype)
        closed = size > value
        report(step, "m2po", self.value, closed, broken)
        if (share < 1.0).any():
            share = torch.where(size == value, share, torch.ones_like(share))
            step.statistics["m2po_dropped"] += (step.share * (1.0 - share)).sum((1, 2, 3), dtype=torch.float64)
        return closed.logical_or_(parts.back(broken)), share


def cut(step: Step, order: Ordered, tau: Any, rest: tuple[Tensor, Tensor] | None = None, *, below: bool = False) -> Cut:
    """The largest values go, one by one, until the mean square of those that are left is at most tau.

    `rest`: mass and squares of what stays whatever its size, `[R, K]`. `below`: below tau, and one token stays.
    """
    first = rest or (torch.zeros_like(order.number[..., 0], dtype=torch.float64),) * 2

    def masses() -> Tensor:
        return order.masses().add_(first[0].unsqueeze(-1))

    def smallest(count: Tensor, column: Tensor, always: Tensor = first[0]) -> Tensor:
        """Sum `[R, K]` over the rest and so many of the smallest."""
        return torch.where(count > 0, order.at(column, count - 1), always)

    square, goal = order.squares().add_(first[1].unsqueeze(-1)), masses().mul_(row(tau))
    fits = square < goal if below else square <= goal
    del goal
    number = torch.where(fits.any(-1), fits.shape[-1] - fits.flip(-1).to(torch.int8).argmax(-1), 0)
    if below and step.unit is None:
        number = number.clamp(min=1)
    value, after = order.at(order.value, number - 1), order.at(order.value, number)
    room = torch.zeros_like(first[0])
    if step.unit is not None:
        # A cell stands for several samples: the next one is left in part, by whole tokens where there are such.
        excess = after.double().square() - flat(tau)
        short = flat(tau) * smallest(number, masses()) - smallest(number, square, first[1])
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


def row(value: Any) -> Any:
    """A bound knob for rows `[R, K, n]`; a plain number as it is."""
    return per_sample(value, 3)


def flat(value: Any) -> Any:
    """A bound knob for numbers of parts `[R, K]`; a plain number as it is."""
    return per_sample(value, 2)


def outward(log_ratio: Tensor, advantage: Tensor) -> Tensor:
    """Log ratio in the direction in which the advantage pushes, `[R, G, N, T]`: positive where a step widens it."""
    return log_ratio * advantage.sign()


def harmful(signed: Tensor, advantage: Tensor) -> Tensor:
    """Tokens that a step would move further away; a NaN counts as one, so that no statistic can miss it."""
    return ~(signed <= 0) & (advantage != 0)


def widening(log_ratio: Tensor, advantage: Tensor, parts: Parts) -> Ordered:
    """Harmful log ratios of each part in ascending order, all of them positive."""
    signed = outward(log_ratio, advantage)
    return ordered(parts.rows(signed), parts.rows(harmful(signed, advantage)), parts)


def report(step: Step, prefix: str, theta: Tensor, closed: Tensor, broken: Tensor) -> None:
    """Smallest threshold of all parts, share of tokens that it closes, and how many parts had no finite statistic."""
    step.statistics[f"{prefix}_theta"] = theta.amin(-1).double()
    step.statistics[f"{prefix}_dropped"] = (step.share * closed.view(torch.uint8)).sum((1, 2, 3), dtype=torch.float64)
    step.statistics[f"{prefix}_nonfinite"] = broken.sum(-1).double()


def stopped(weight: Tensor, closed: Tensor) -> Tensor:
    """A weight that nobody else holds, with exactly 0 where it is closed, whatever stands there."""
    # Few tensors of one number a part have anything to close; looking is cheap, filling is not.
    idle = closed.numel() < weight.numel() and not closed.any()
    return weight if idle else weight.masked_fill_(closed, 0.0)


def _sort(key: Tensor) -> Tensor:
    """Ascending along the last axis, in place on the CPU."""
    if key.device.type != "cpu":
        return key.sort(-1).values
    # torch's sort on the CPU carries an order that is not asked for, at thirty times the price.
    key.numpy().sort(axis=-1)
    return key


def _argsort(key: Tensor) -> Tensor:
    return torch.from_numpy(np.argsort(key.numpy(), axis=-1)) if key.device.type == "cpu" else key.argsort(-1)
