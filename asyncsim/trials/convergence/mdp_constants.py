"""Norms of the product's exact gradient, and of its differences, at given policies of decision processes."""

from __future__ import annotations

import dataclasses

import numpy as np

from asyncsim.learning.spec import Spec
from asyncsim.learning.versions import Weights
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.trials.convergence import _mdp

_STEP = 1e-4
"""Half the distance of the policies that are compared; what it leaves out is about its square."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    logits = np.ravel(point["logits"])
    task = _mdp.task_of(point)
    spec = _mdp.spec_of(task, plant)
    shifts = _STEP * np.concatenate([np.zeros((1, logits.size)), np.eye(logits.size), -np.eye(logits.size)])
    here, *near = _mdp.exact(spec, logits + shifts)[1]
    after, before = np.split(np.array(near), 2)
    slopes = (after - before) / (2.0 * _STEP)
    size = float(np.abs(np.linalg.eigvalsh(0.5 * (slopes + slopes.T))).max())
    left_out = _mdp.left_out(task) * task.horizon
    tolerances = {"gradient": left_out, "hessian": left_out + 10.0 * _STEP**2 * size}
    found = {"gradient": float(np.linalg.norm(here)), "hessian": size}
    return {name: _mdp.exactly(value, tolerances[name]) for name, value in found.items()}


class _Sharpened(Wrapped):
    """A policy that acts and scores at a lower temperature but leaves it out of the derivative."""

    def prepare(self, parameters: object) -> Weights:
        """Tables of the logits divided by 0.9."""
        prepared: Weights = self._inner.prepare(parameters / 0.9)  # type: ignore[operator]
        return prepared


def _half_discounted(spec: Spec) -> Spec:
    """The discount of a step spread over two."""
    task = spec.task
    return spec.replace(task=dataclasses.replace(task, discount=task.discount**0.5))  # type: ignore[attr-defined, type-var]


_FLAT, _STEEP = 0.0, float(np.log(2.0 + np.sqrt(3.0)))
"""Difference of two arms' logits at which a softmax has its largest slope, and its largest curvature."""


def _slipping(discount: float, place: float) -> Point:
    """Staying pays 1, leaving ends it; the chance of leaving is small where gradients are large."""
    away = float(-np.log(1.0 - discount)) + place
    return _mdp.point((((1.0,), (0.0,)),), ((1.0, 0.0),), discount, logits=((away, 0.0),))


_BANDIT = _mdp.point((((1.0,), (1.0,)),), ((0.2, 0.7),), 0.5, logits=((_STEEP, 0.0),))
_TWO = _mdp.point(_mdp.STAY, ((1.0, 0.0), (1.0, 0.0)), 0.99, logits=((3.5145, 0.0), (-2.1537, 0.0)))
_LEVEL = {**_TWO, "logits": ((2.6698, 0.0), (-2.7507, 0.0))}

trial = Trial(
    points=(_BANDIT, _slipping(0.9, _FLAT), _slipping(0.9, _STEEP), _TWO, _LEVEL),
    more=(_slipping(0.99, _STEEP), _slipping(0.99, _FLAT), {**_TWO, "discount": 0.9}),
    measure=_measure,
    defects={
        "temperature forgotten in the derivative": Defect(
            lambda spec: spec.replace(policy=_Sharpened(spec.trained_policy)), _BANDIT
        ),
        "discount of a step spread over two": Defect(_half_discounted, _slipping(0.9, _STEEP)),
    },
    effect=0.01,
    reach=_mdp.why_long,
    through="oracle",
)
