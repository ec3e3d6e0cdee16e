"""The largest N/ESS of clamped weights that a search over weight laws finds, through the product's statistic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.base import rng
from asyncsim.learning import ratios
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_SHARES = 2001


@dataclass(frozen=True)
class Statistic:
    """The statistic under test: (log weights `[R, n]`, masses, clamp C) to ESS/N `[R]`."""

    ess: Callable[[Tensor, Tensor, float], Tensor]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    statistic = plant(Statistic(ratios.ess))
    clamp = float(point["clamp"])
    # Laws on two points far outside the clamp, of every share; and random laws on eight points.
    share = torch.linspace(1e-4, 1.0 - 1e-4, _SHARES, dtype=torch.float64)
    mass = torch.stack([share, 1.0 - share], -1)
    far = torch.tensor([3.0, -3.0], dtype=torch.float64) * math.log(clamp)
    lowest = statistic.ess(far.expand(_SHARES, 2), mass, clamp).min().item()
    stream = rng.Stream(seed, "clamp-floor")
    logs = torch.from_numpy(8.0 * stream.normal([[k] for k in range(_SHARES)], range(8)))
    lowest = min(lowest, statistic.ess(logs, torch.full((_SHARES, 8), 0.125, dtype=torch.float64), clamp).min().item())
    # The grid of shares misses the worst one by at most 5e-4, which changes N/ESS by less than 1e-5 of itself.
    return {"largest_inverse": Estimate(1.0 / lowest, tolerance=1e-9 / lowest, samples=2 * _SHARES)}


def _one_sided(statistic: Statistic) -> Statistic:
    """A clamp from above only, which has no floor."""
    return Statistic(lambda log_weight, mass, clamp: ratios.ess(log_weight.clamp(max=math.log(clamp)), mass))


trial = Trial(
    points=({"clamp": 2.0}, {"clamp": 5.0}),
    more=({"clamp": 8.0}, {"clamp": 1.3}),
    measure=_measure,
    defects={"clamp from above only": Defect(_one_sided, {"clamp": 2.0})},
    effect=0.05,
    through="ratios",
)
