"""Gradients with and without centered scores, of all actions and of the sampler's likeliest, through the oracle."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Step
from asyncsim.methods._corrections import Centered
from asyncsim.methods._weights import NoRatio, Ratio, Weight
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, baseline = point["rewards"], advantages.offset(point["offset"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    method = methods.score_centering(point["weight"], point["cap"], point.get("top"), baseline)
    weight: Any = plant(population(task, method)).method.weight

    def limit(other: Weight) -> np.ndarray:
        places = np.array(point["current_logits"]), np.array(point["behavior_logits"])
        return oracle.limit(task, method.replace(weight=other), *places)

    centered = limit(dataclasses.replace(weight, top=None))
    plain = limit(Ratio("token", point["cap"]) if point["weight"] == "truncated" else NoRatio())
    found = components("grad", centered) | components("removed", plain - centered)
    return found | (components("left", limit(weight) - centered) if point.get("top") else {})


@dataclass(frozen=True)
class _Unweighted(Centered):
    """The mean score of the sampler without the weights."""

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        """-A mu_v."""
        return -advantage.unsqueeze(-1) * step.recorded("log_probs").exp()


@dataclass(frozen=True)
class _AlphaOne(Centered):
    """The rest of the sampler taken to be the trainer's."""

    def _without_tail(self, mean: Tensor, prob: Tensor, drawn: Tensor, top: int) -> Tensor:
        head = torch.zeros_like(prob).scatter_(-1, drawn.topk(top, dim=-1).indices, 1.0)
        return head * (mean - prob)


def _weighing(kind: type[Centered]) -> Plant:
    def plant(spec: Spec) -> Spec:
        weight: Any = spec.method.weight
        return spec.replace(method=spec.method.replace(weight=kind(weight.truncated, weight.cap, weight.top)))

    return plant


_POINT = {
    "behavior_logits": (0.3, -0.2, 0.5, -0.6), "current_logits": (1.5, -0.9, 0.1, 0.4),
    "rewards": (0.2, 0.5, 1.0, 0.0), "offset": 0.1, "cap": 1.2,
}  # fmt: skip
_TRUNCATED = {**_POINT, "weight": "truncated", "top": 1}
_PLAIN = {**_POINT, "weight": "none", "top": 2}

trial = Trial(
    points=(_TRUNCATED, _PLAIN, {**_POINT, "weight": "truncated", "top": None}),
    more=({**_PLAIN, "top": None, "offset": 0.9},),
    measure=_measure,
    defects={
        "weights left out of the mean": Defect(_weighing(_Unweighted), _TRUNCATED),
        "alpha of 1": Defect(_weighing(_AlphaOne), _PLAIN),
    },
    effect=0.02,
    through="oracle",
)
