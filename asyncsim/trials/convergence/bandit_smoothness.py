"""How fast the product's exact gradient of a softmax bandit changes: largest ratio over many pairs of policies."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from asyncsim import methods, schedules, tasks
from asyncsim.base import rng
from asyncsim.learning.spec import Spec
from asyncsim.learning.versions import Weights
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.updates._link import chain

_GRID, _DRAWN = 201, 400
_SPACING = 1e-3
"""Distance of the pairs on two arms; the ratio there is below the largest derivative by about its square."""


def _places(arms: int, worst: int, best: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of logits: neighbors on the two extreme arms, and drawn ones at any distance."""
    along = np.zeros((_GRID, arms)) - 40.0
    along[:, worst], along[:, best] = 0.0, np.linspace(-4.0, 4.0, _GRID)
    step = np.zeros(arms)
    step[[worst, best]] = -0.5 * _SPACING, 0.5 * _SPACING
    draws = 2.0 * rng.Stream(seed, "bandit-smoothness").normal([[k] for k in range(2 * _DRAWN)], range(arms))
    one, other = draws.reshape(2, _DRAWN, arms)
    return np.concatenate([along, one]), np.concatenate([along + step, one + 0.3 * other])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards = np.array(point["rewards"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    spec = plant(Spec(task, schedules.fixed(0), methods.reinforce(), chain()))
    pairs = _places(len(rewards), int(rewards.argmin()), int(rewards.argmax()), seed)
    first, second = (spec.fitted_task.exact(spec.trained_policy, torch.as_tensor(place))[1].numpy() for place in pairs)
    ratio = np.linalg.norm(second - first, axis=1) / np.linalg.norm(pairs[1] - pairs[0], axis=1)
    return {"bound": Estimate(float(ratio.max()), tolerance=1e-7)}


class _Sharpened(Wrapped):
    """A policy that acts and scores at a lower temperature but leaves it out of the derivative."""

    def prepare(self, parameters: Tensor) -> Weights:
        """Tables of the logits divided by 0.9."""
        prepared: Weights = self._inner.prepare(parameters / 0.9)
        return prepared


_TWO = {"rewards": (0.0, 1.0)}

trial = Trial(
    points=(_TWO, {"rewards": (0.1, 0.4, 0.9)}, {"rewards": (0.0, 0.2, 0.5, 0.7, 1.0)}),
    more=({"rewards": tuple(np.linspace(-1.0, 2.0, 10).tolist())},),
    measure=_measure,
    defects={
        "temperature forgotten in the derivative": Defect(
            lambda spec: spec.replace(policy=_Sharpened(spec.trained_policy)), _TWO
        )
    },
    effect=0.05,
    through="oracle",
)
