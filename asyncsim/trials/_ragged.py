"""Updates on every response of a policy that may stop early, at three different policies, and what is read of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, methods, tasks
from asyncsim.base.records import Estimate, Point
from asyncsim.learning import oracle
from asyncsim.learning.batch import Batch
from asyncsim.learning.spec import Spec
from asyncsim.learning.step import Carried, Step
from asyncsim.methods._evaluate import evaluate
from asyncsim.methods._method import Method
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import exactly
from asyncsim.trials._trial import Plant

TABLES: dict[str, Any] = {
    "behavior_logits": ((0.3, -0.2, 0.1), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1)),
    "proximal_logits": ((0.6, -0.4, 0.1), (0.2, 0.2, -0.3), (0.1, 0.0, 0.2)),
    "current_logits": ((1.1, -0.9, 0.1), (0.7, 0.2, -0.7), (0.3, 0.8, -0.3)),
}
"""Behavior, the start of the batch, and the policy that is updated: logits of three tokens at three places."""
SHORT = {name: TABLES[name][:2] for name in ("behavior_logits", "current_logits")}
"""Two policies and two places, for groups of few samples."""


def task_at(point: Point, **settings: Any) -> Any:
    """The task of a point: responses that the last token ends, paid for every token 0."""
    horizon, actions = np.shape(point["behavior_logits"])
    return tasks.token_bandit(actions, horizon, "position", ends=True, **settings)


def planted(point: Point, method: Method, plant: Plant, **settings: Any) -> Spec:
    """The spec of a point after planting; `settings` of its task."""
    return plant(population(task_at(point, **settings), method))


def stepped(spec: Spec, point: Point, changed: Callable[[Batch], Batch] = lambda batch: batch) -> Step:
    """The update of a method on all responses of behavior, not the first one on them if training began elsewhere."""
    task, method, policy = spec.task, spec.method, spec.trained_policy
    behavior, current = (np.ravel(point[name]) for name in ("behavior_logits", "current_logits"))
    proximal = np.ravel(point["proximal_logits"]) if "proximal_logits" in point else current
    first = oracle.population_step(task, method, proximal, behavior, policy)
    weights = policy.prepare(torch.from_numpy(current).unsqueeze(0))
    start = Carried(first.current) if method.proximal else None
    return evaluate(method, task, policy, weights, changed(first.batch), start)


def together(first: Batch, second: Batch) -> Batch:
    """Two groups of one batch."""
    columns = ("action", "state", "mask", "reward", "mass")
    both: dict[str, Any] = {name: torch.cat([getattr(first, name), getattr(second, name)], 1) for name in columns}
    behavior = {name: torch.cat([each, second.behavior[name]], 1) for name, each in first.behavior.items()}
    trajectory = np.concatenate([first.trajectory, second.trajectory + 1], 1)
    return dataclasses.replace(first, **both, behavior=behavior, trajectory=trajectory, index=None, _full=None)


def of_groups(spec: Spec, point: Point) -> oracle.Moments:
    """Moments of a method's update over all groups of stale samples, in the first update on them."""
    current, behavior = (np.ravel(point[name]) for name in ("current_logits", "behavior_logits"))
    return oracle.moments(spec.task, spec.method, current, behavior, point["samples"], spec.policy)


@cache
def gradients(logits: tuple[tuple[float, ...], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of the mean reward and of the mean length at a policy, `[P]`."""
    current, task = np.ravel(logits), task_at({"behavior_logits": logits})
    plain, policy = methods.reinforce(advantages.none()), task.policy()
    batch = oracle.population_step(task, plain, current).batch
    lengths = dataclasses.replace(batch, reward=batch.mask.sum(-1))
    weights = policy.prepare(torch.from_numpy(current).unsqueeze(0))
    longer = evaluate(plain, task, policy, weights, lengths).gradient[0]
    return oracle.exact(task, current)[1], longer.numpy()


def read(update: Tensor | np.ndarray, point: Point) -> dict[str, Estimate]:
    """An update's part along the policy gradient, its size, and how fast it raises the mean length."""
    gradient, longer = gradients(point["current_logits"])
    g, norm = np.ravel(update), float(np.linalg.norm(gradient))
    found = {"along": g @ gradient / norm**2, "size": np.linalg.norm(g) / norm, "longer": g @ longer / norm}
    return {name: exactly(float(value)) for name, value in found.items()}


@dataclass(frozen=True)
class Renormalized(Method):
    """A method whose denominators leave out what its factors have dropped."""

    def share(self, step: Step) -> Tensor:
        """The shares, scaled up as if only kept tokens had been generated."""
        share = super().share(step)
        kept = (self.factor(step, step.advantages.unsqueeze(-1)) != 0).to(share.dtype)
        return share * share.sum() / (share * kept).sum()


def renormalized(spec: Spec) -> Spec:
    """A plant: factors in the denominator."""
    fields = {field.name: getattr(spec.method, field.name) for field in dataclasses.fields(spec.method)}
    return spec.replace(method=Renormalized(**fields))
