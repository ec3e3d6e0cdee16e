"""Decision processes of a point as tasks, whose episodes are long enough for the discount to hide their end."""

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.base.records import Point
from asyncsim.claims._trial import Plant
from asyncsim.claims.lab.plants import with_method, with_task
from asyncsim.methods._method import Method
from asyncsim.running.spec import Spec
from asyncsim.updates._link import chain

_LEFT_OUT = 1e-9
"""Discount of the first step that episodes leave out; where every outcome is listed, only so much as is affordable."""
_LISTED = 3**7


def task_of(point: Point, rewards: Any = None) -> Any:
    """The decision process of a point as a task, with the horizon that its discount requires."""
    discount, table = point["discount"], point["rewards"] if rewards is None else rewards
    steps = 1 if discount == 0.0 else max(1, math.ceil(math.log(_LEFT_OUT) / math.log(discount)))
    return tasks.mdp(point["transition"], table, horizon=steps, discount=discount)


def listed(point: Point) -> Any:
    """The point's task with the longest horizon that can be enumerated, for deterministic transitions."""
    task = task_of(point)
    affordable = int(math.log(_LISTED) / math.log(task.actions))
    return dataclasses.replace(task, horizon=min(task.horizon, affordable))


def left_out(task: Any) -> float:
    """Bound on the change of the return, and of its derivative in a logit, from steps beyond the horizon."""
    T, discount = task.horizon, task.discount
    most = float(np.abs(task.paid).max())
    return most * discount**T * (T + 1.0 / (1.0 - discount)) / (1.0 - discount) + 1e-12 * most / (1.0 - discount) ** 2


def spec_of(task: Any, plant: Plant, method: Method | None = None, **settings: Any) -> Spec:
    """Spec of one population update at learning rate 1 along the direction of a method (default REINFORCE)."""
    method = method or methods.reinforce(advantages.returns_to_go())
    sampling = "enumerate" if task.enumerable else "monte_carlo"
    options = {"updates": 1, "replicates": 1, "sampling": sampling, "diagnostics": "none", **settings}
    return plant(Spec(task, schedules.fixed(0), method, chain(updates.sgd(1.0)), **options))


def exact(spec: Spec, logits: Any) -> tuple[np.ndarray, np.ndarray]:
    """Exact returns `[R]` and gradients `[R, S A]` that the simulator computes at logits `[R, ...]`."""
    places = torch.as_tensor(np.array(logits, dtype=np.float64))
    value, gradient = spec.task.exact(spec.trained_policy, places.reshape(len(places), -1))
    return value.numpy(), gradient.numpy()


def discount_in_advantage(spec: Spec) -> Spec:
    """Plant with the discount in the advantage only, so that later states weigh as much as the first."""
    discount = spec.task.discount  # type: ignore[attr-defined]
    return with_method(advantage=advantages.returns_to_go(discount))(with_task(lambda task: {"discount": 1.0})(spec))


def why_random(point: Point) -> str | None:
    """Return why the action sequences of a point cannot be enumerated; else None."""
    if not task_of(point).enumerable:
        return "transitions that leave nothing to chance; make them certain, every sequence of actions is listed"
    if point["discount"] ** listed(point).horizon > 1e-5:
        return "a discount that hides the end of the sequences that can be listed; lower it"
    return None
