"""Ratios that the clips of A-3PO and of decoupled PPO see: bounds at which their gates close, by bisection."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import methods, tasks
from asyncsim.learning import oracle
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.trials._plants import Tempered, with_method, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_HALVINGS = 50
_A3po: Any = type(methods.a3po().weight)


def _closed(method: Method, log_probs: list[Tensor], staleness: int, sign: Tensor, bound: np.ndarray) -> np.ndarray:
    """Whether the gate of A = sign is closed when its bound is so far from 1, in logs; a replicate for each, `[R]`."""
    low, high = (tuple(x.tolist()) for x in (-np.expm1(-bound), np.expm1(bound)))
    weight: Any = dataclasses.replace(method.weight, low=low, high=high)  # type: ignore[type-var]
    age = torch.full_like(log_probs[0], staleness)
    found = method.replace(weight=weight).weigh(*log_probs, advantages=sign, staleness=age)
    return found.score_weight.flatten().numpy() == 0.0


def _seen(method: Method, log_probs: tuple[Tensor, ...], staleness: int) -> np.ndarray:
    """Log of the ratio that the clip sees of each action, `[A]`."""
    actions = len(log_probs[0])
    # Every action with both signs: above 1 one gate closes, below the other.
    sign = torch.tensor([1.0] * actions + [-1.0] * actions, dtype=torch.float64).reshape(-1, 1, 1)
    twice = [each.repeat(2, 1, 1, 1) for each in log_probs]
    shut_at, open_at = np.zeros(2 * actions), np.full(2 * actions, 20.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (shut_at + open_at)
        shut = _closed(method, twice, staleness, sign, middle)
        shut_at, open_at = np.where(shut, middle, shut_at), np.where(shut, open_at, middle)
    edges: np.ndarray = shut_at[:actions] - shut_at[actions:]
    return edges


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    behavior, current = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    staleness = point["staleness"]
    task = tasks.softmax_bandit(len(behavior), rewards="fixed")
    spec = plant(population(task, methods.a3po()))

    def scored(parameters: np.ndarray) -> Tensor:
        step = oracle.population_step(task, spec.method, parameters, behavior, spec.policy)
        return step.current["log_prob"].reshape(-1, 1, 1, 1)

    now, then = scored(current), scored(behavior)
    before = scored(current - (current - behavior) / staleness)
    seen = _seen(spec.method, (now, then), staleness)
    true = _seen(methods.decoupled_ppo(cap=None), (now, then, before), staleness)
    return components("seen", seen) | components("shift", seen - true)


@dataclass(frozen=True)
class _Exchanged(_A3po):
    """The clip reads the ratio of the snapshot to behavior."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """As if the staleness were d/(d - 1)."""
        other = step.staleness / (step.staleness - 1.0)
        return super().score_weight(dataclasses.replace(step, age=other), advantage)


@dataclass(frozen=True)
class _VersionMore(_A3po):
    """Staleness counted from the version that is about to be published."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """As if d were one more."""
        return super().score_weight(dataclasses.replace(step, age=step.staleness + 1.0), advantage)


_POINT = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1), "staleness": 4}

trial = Trial(
    points=(_POINT, {**_POINT, "staleness": 2}),
    more=({"behavior_logits": (0.0, 0.0, 0.0, 0.0), "current_logits": (2.0, -1.0, 0.5, 0.0), "staleness": 16},),
    measure=_measure,
    defects={
        "alpha and 1 - alpha exchanged": Defect(with_method(weight=_Exchanged(0.2, 0.2)), _POINT),
        "a version more": Defect(with_method(weight=_VersionMore(0.2, 0.2)), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=0.02,
    through="oracle",
)
