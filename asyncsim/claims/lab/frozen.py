"""Bandits trained on data of one behavior policy, through the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim import schedules, tasks
from asyncsim.base import checks
from asyncsim.base.records import Estimate
from asyncsim.claims._trial import Point
from asyncsim.claims.lab.runs import ascent
from asyncsim.methods._method import Method
from asyncsim.running.spec import Spec


def offline(point: Point, method: Method, step: float, updates: int, **settings: Any) -> Spec:
    """Population gradients of the behavior's data, from the behavior on."""
    rewards = point["rewards"]
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", logits=point["behavior_logits"])
    return ascent(task, schedules.frozen(), method, step, updates, **settings)


def settled(ending: Callable[[int], np.ndarray], updates: int, tolerance: float) -> np.ndarray:
    """Where runs end that doubling does not move by more than the tolerance, from so many updates on.

    Raises `InputError` where sixteen times as many do not settle either.
    """
    most, before = 16 * updates, ending(updates // 2)
    while True:
        after = ending(updates)
        moved = float(np.abs(after - before).max())
        if moved <= tolerance:
            return after
        bound = f"at most {tolerance:g}; give no arm a much smaller probability or gain than the others"
        checks.require(updates < most, f"movement in the second half of {updates} updates", moved, *bound.split("; "))
        before, updates = after, 2 * updates


def arms(name: str, values: Any, tolerance: float) -> dict[str, Estimate]:
    """An estimate for each arm."""
    return {f"{name}[{k}]": Estimate(float(value), tolerance=tolerance) for k, value in enumerate(values)}


def policy(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the arms."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
