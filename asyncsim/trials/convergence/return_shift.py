"""Returns and discounted visits of two policies on decision processes, by the product's recursion."""

from __future__ import annotations

import dataclasses

import numpy as np

from asyncsim.learning.spec import Spec
from asyncsim.learning.versions import Weights
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.trials.convergence import _mdp


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    places = [point["behavior_logits"], point["current_logits"]]

    def moved(rewards: object) -> float:
        """By how much the return with these rewards differs."""
        behavior, current = _mdp.exact(_mdp.spec_of(_mdp.task_of(point, rewards), plant), places)[0]
        return float(current - behavior)

    # Discounted visits of a state are the return of a process that pays 1 there.
    task = _mdp.task_of(point)
    visits = [moved(np.outer(here, np.ones(task.actions))) for here in np.eye(task.rows)]
    tolerance = _mdp.left_out(task)
    most = float(np.abs(point["rewards"]).max())
    return {
        "return": _mdp.exactly(abs(moved(point["rewards"])), tolerance),
        "occupancy": _mdp.exactly(float(np.abs(visits).sum()), tolerance * task.rows / most),
    }


class _Sharpened(Wrapped):
    """A policy that acts at a lower temperature than it says."""

    def prepare(self, parameters: object) -> Weights:
        """Tables of the logits divided by 0.8."""
        prepared: Weights = self._inner.prepare(parameters / 0.8)  # type: ignore[operator]
        return prepared


def _undiscounted(spec: Spec) -> Spec:
    """The discount forgotten."""
    return spec.replace(task=dataclasses.replace(spec.task, discount=1.0))  # type: ignore[type-var]


_CHOICE = _mdp.point(
    (((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((0.0, 1.0, 0.0),) * 2, ((0.0, 0.0, 1.0),) * 2),
    ((1.0, 0.0), (1.0, 1.0), (0.0, 0.0)),
    0.9,
    behavior_logits=((0.8, 0.0), (0.0, 0.0), (0.0, 0.0)),
    current_logits=((-0.4, 0.0), (0.0, 0.0), (0.0, 0.0)),
)
_SLIP = _mdp.point(
    (((1.0, 0.0), (0.0, 1.0)), ((0.0, 1.0), (0.0, 1.0))),
    ((1.0, 0.0), (0.0, 0.0)),
    0.9,
    behavior_logits=((40.0, 0.0), (0.0, 0.0)),
    current_logits=((1.0, 0.0), (0.0, 0.0)),
)
_ANY = _mdp.point(
    (((0.6, 0.4), (0.1, 0.9)), ((0.5, 0.3), (0.2, 0.8))),
    ((0.0, 1.0), (0.5, -0.4)),
    0.8,
    behavior_logits=((0.3, -0.2), (0.0, 0.7)),
    current_logits=((1.0, -0.6), (0.4, 0.2)),
)

trial = Trial(
    points=(_CHOICE, _SLIP, _ANY),
    more=({**_SLIP, "discount": 0.99}, {**_SLIP, "current_logits": ((-1.0, 0.0), (0.0, 0.0))}),
    measure=_measure,
    defects={
        "discount forgotten": Defect(_undiscounted, _CHOICE),
        "temperature forgotten": Defect(lambda spec: spec.replace(policy=_Sharpened(spec.trained_policy)), _CHOICE),
    },
    effect=0.01,
    reach=_mdp.why_long,
    through="oracle",
)
