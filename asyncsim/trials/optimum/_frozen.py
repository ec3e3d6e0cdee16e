"""Bandits trained on data of one behavior policy, through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import schedules, tasks
from asyncsim.base.records import Estimate
from asyncsim.learning.spec import Spec
from asyncsim.methods._method import Method
from asyncsim.trials._runs import ascent
from asyncsim.trials._trial import Point


def offline(point: Point, method: Method, step: float, updates: int, **settings: Any) -> Spec:
    """Population gradients of the behavior's data, from the behavior on."""
    rewards = point["rewards"]
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", logits=point["behavior_logits"])
    return ascent(task, schedules.frozen(), method, step, updates, **settings)


def arms(name: str, values: Any, tolerance: float) -> dict[str, Estimate]:
    """An estimate for each arm."""
    return {f"{name}[{k}]": Estimate(float(value), tolerance=tolerance) for k, value in enumerate(values)}


def policy(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the arms."""
    weights: np.ndarray = np.exp(logits - logits.max())
    return weights / weights.sum()
