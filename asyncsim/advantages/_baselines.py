"""Weighted baselines over a group or a whole step: mean, leave-one-out mean, median, winsorized mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.step import ratios
from asyncsim.step.step import Step

SCOPES = ("group", "step")
_EDGES = (0.05, 0.95)
"""Weighted quantiles to which winsorizing limits rewards."""
_SMALLEST = 1e-8
"""A spread of rewards from which they are standardized."""


@dataclass(frozen=True)
class Pool:
    """Rewards, masses (total 1 over the last axis) and weights of what is compared, `[R, G, N]` or `[R, 1, G N]`.

    `one`: mass of a single sample, `[R, G, N]`, 0 in a population.
    """

    reward: Tensor
    mass: Tensor
    weight: Tensor
    one: Tensor

    @property
    def relative(self) -> tuple[Tensor, Tensor]:
        """A reward that occurs `[R, G, 1]` and all rewards less it: equal rewards are then exactly 0."""
        origin = self.reward.gather(-1, self.mass.argmax(-1, keepdim=True))
        return origin, self.reward - origin


def pooled(step: Step, weight: Tensor, scope: str = "group") -> Pool:
    """What a sample is compared with: its group, or the whole step (every group counts alike)."""
    shape = step.reward.shape
    mass = step.batch.mass.expand(shape)
    if scope == "group":
        return Pool(step.reward, mass, weight, torch.ones_like(mass) / step.peers)
    one, groups = torch.full_like(mass, 1.0 / step.size), step.groups
    if step.empty is not None:
        # Groups that the method drops, and samples without a reward, are no part of the step.
        mass = step.mass.expand(shape)
        one = one * (mass > 0)
    # Both masses in the same operations: what a single sample leaves of its own cell is exactly 0.
    parts = (step.reward, mass / groups, weight.expand(shape), one / groups)
    return Pool(*(x.reshape(shape[0], 1, -1) for x in parts))


def location(pool: Pool, robust: str) -> Tensor:
    """Mean, median or winsorized mean of the rewards under mass times weight, `[R, G, 1]`."""
    chance = _chance(pool)
    origin, relative = pool.relative
    if robust == "median":
        return _quantile(pool.reward, chance, 0.5)
    if robust == "winsorized":
        low, high = (_quantile(relative, chance, edge) for edge in _EDGES)
        relative = torch.minimum(torch.maximum(relative, low), high)
    return origin + (chance * relative).sum(-1, keepdim=True)


def others(pool: Pool) -> Tensor:
    """Weighted mean reward of all samples but the one, `[R, G, N]`; the plain one where their weights vanish.

    A cell of several equal samples loses one of them; a population loses nothing. Sums leave a sample out instead of
    subtracting it: one of weight 1e8 would take the digits of all others with it.
    """
    origin, relative = pool.relative
    remaining = (pool.mass - pool.one).clamp(min=0.0)

    def mean(weight: Tensor) -> tuple[Tensor, Tensor]:
        total = _without(pool.mass * weight) + remaining * weight
        moment = _without(pool.mass * weight * relative) + remaining * weight * relative
        return moment / torch.where(total > 0, total, torch.ones_like(total)), total

    plain, rest = mean(torch.ones_like(pool.reward))
    weighted, total = mean(pool.weight)
    # An only sample has no others: its own reward makes its advantage 0.
    fallback = torch.where(rest > 0, origin + plain, pool.reward)
    return torch.where(total > 0, origin + weighted, fallback)


def spread(pool: Pool) -> Tensor:
    """Population standard deviation of the rewards, 1 where it is at most 1e-8, `[R, G, 1]`."""
    _, relative = pool.relative
    centered = relative - (pool.mass * relative).sum(-1, keepdim=True)
    deviation = (pool.mass * centered**2).sum(-1, keepdim=True).sqrt()
    return torch.where(deviation > _SMALLEST, deviation, torch.ones_like(deviation))


def _chance(pool: Pool) -> Tensor:
    heavy = pool.mass * pool.weight
    total = heavy.sum(-1, keepdim=True)
    return torch.where(total > 0, heavy / torch.where(total > 0, total, torch.ones_like(total)), pool.mass)


def _without(values: Tensor) -> Tensor:
    """Sum over the last axis of all entries but the one."""
    before, behind = (torch.nn.functional.pad(x.cumsum(-1)[..., :-1], (1, 0)) for x in (values, values.flip(-1)))
    return before + behind.flip(-1)


def _quantile(values: Tensor, chance: Tensor, level: float) -> Tensor:
    """Smallest value up to which the chances add up to at least `level`, `[R, G, 1]`."""
    found = ratios.quantile(values.flatten(0, 1), chance.flatten(0, 1), level)
    return found.reshape(*values.shape[:2], 1).to(values.dtype)
