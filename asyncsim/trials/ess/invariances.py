"""Statistics of weights and of the same weights times a factor beyond the range of a double, by the product's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.learning import ratios
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_ROUNDING = 1e-10


@dataclass(frozen=True)
class Statistics:
    """Those under test, of log weights `[R, n]` with masses of the same shape."""

    ess: Callable[[Tensor, Tensor], Tensor] = ratios.ess
    log_mean: Callable[[Tensor, Tensor], Tensor] = ratios.log_mean_weight
    share: Callable[[Tensor, Tensor], Tensor] = ratios.max_weight_share


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    statistics = plant(Statistics())
    log_weight = torch.tensor([point["log_weights"]], dtype=torch.float64)
    rows = torch.cat([log_weight, log_weight + point["factor"], torch.full_like(log_weight, point["factor"])])
    mass = torch.full_like(rows, 1.0 / rows.shape[1])
    ess, mean, share = (f(rows, mass).tolist() for f in (statistics.ess, statistics.log_mean, statistics.share))
    values = {
        "ess": ess[0],
        "ess_shifted": ess[1],
        "ess_equal": ess[2],
        "largest_share": share[0],
        "largest_share_shifted": share[1],
        "growth_of_mean": mean[1] - mean[0],
    }
    return {name: Estimate(value, tolerance=_ROUNDING * max(1e-3, abs(value))) for name, value in values.items()}


def _padded(log_weight: Tensor, mass: Tensor) -> Tensor:
    """A small number added to the sum of squares."""
    weight = log_weight.exp()
    return weight.sum(1) ** 2 / ((weight**2).sum(1) + 1e-8) / log_weight.shape[1]


def _unscaled(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Weights exponentiated before they are divided by the largest."""
    weight = log_weight.exp()
    return (mass * weight).sum(1) ** 2 / (mass * weight**2).sum(1)


def _with(**others: Callable[[Tensor, Tensor], Tensor]) -> Plant:
    return lambda statistics: dataclasses.replace(statistics, **others)


_SMALL = {"log_weights": (0.3, -1.2, 0.8, 0.1), "factor": -9.0}
_FAR = {"log_weights": (1.0, 0.0, -2.0, 0.5, 0.2), "factor": 800.0}
_ONE = {"log_weights": (-800.0, 800.0, 0.0), "factor": -500.0}

trial = Trial(
    points=(_SMALL, _FAR, _ONE),
    measure=_measure,
    defects={
        "a small number in the denominator": Defect(_with(ess=_padded), _SMALL),
        "weights exponentiated as they are": Defect(_with(ess=_unscaled), _FAR),
        "mean of scaled weights": Defect(
            _with(
                log_mean=lambda log_weight, mass: ratios.log_mean_weight(log_weight - log_weight.amax(1, True), mass)
            ),
            _SMALL,
        ),
    },
    effect=0.02,
    through="ratios",
)
