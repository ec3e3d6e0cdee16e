"""Moments of the ratios of softmax policies, and the largest second moment found, by enumeration and metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import metrics_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.ratio._pairs import bandit, drawn, two_arms

_ROUNDING = 1e-10
_ARMS = 5


def _power(power: float) -> Metric:
    """E w^p."""
    return Metric(
        f"power[{power:g}]", lambda step: step.mean(torch.exp(power * step.sequence_log_ratio)), ("log_prob",)
    )


_METRICS: list[Any] = ["chi_square", _power(0.5), _power(3.0)]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    current, behavior = (np.array([point[f"{name}_logits"]]) for name in ("current", "behavior"))
    chi_square, half, third = metrics_of(plant(bandit(current.size, _METRICS)), current, behavior)
    read = {"moment[0.5]": half[0], "moment[2]": 1.0 + chi_square[0], "moment[3]": third[0]}
    # Ratios in [m, M] of mean 1: on both ends alone, and drawn on five arms.
    pi, mu = (np.exp(x) / np.exp(x).sum() for x in (current, behavior))
    low, high = float((pi / mu).min()), float((pi / mu).max())
    spec = plant(bandit(2, _METRICS))
    largest = 1.0 + metrics_of(spec, *two_arms((1.0 - low) / (high - low), high))[0].max()
    many = 1.0 + metrics_of(plant(bandit(_ARMS, _METRICS)), *_inside(low, high, seed))[0].max()
    read["largest"] = max(largest, many)
    return {name: Estimate(float(x), tolerance=_ROUNDING * float(x)) for name, x in read.items()}


def _inside(low: float, high: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Drawn pairs whose ratios lie in [low, high]."""
    logits, deviation = drawn(_ARMS, seed, "finite-arms")
    mu = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    centered = deviation - (mu * deviation).sum(1, keepdims=True)
    room = np.where(centered > 0.0, (high - 1.0) / centered, (low - 1.0) / centered).min(1, keepdims=True)
    return np.log(mu * (1.0 + (1.0 - 1e-9) * room * centered)), np.log(mu)


_NEAR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
_TWO = {"behavior_logits": (0.0, 1.0), "current_logits": (1.0, -0.5)}

trial = Trial(
    points=(_NEAR, _TWO),
    more=({"behavior_logits": (0.0, 3.0, 0.0, -2.0), "current_logits": (1.0, 0.0, 0.5, 0.0)},),
    measure=_measure,
    defects={
        "scored at another temperature": Defect(with_policy(Tempered), _NEAR),
        "variance of log ratios": Defect(replaced(diagnostics=["log_ratio_variance", _power(0.5), _power(3.0)]), _NEAR),
    },
    effect=0.02,
    through="oracle",
)
