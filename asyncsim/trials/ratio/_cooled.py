"""Normal actions drawn at a temperature below 1 and scored by the policy itself: ratios with a power-law tail."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import policies, tasks
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import displaced
from asyncsim.trials._trial import Plant


def cooled(temperature: float, dimension: int, metrics: list[Any], size: tuple[int, int, int]) -> Spec:
    """Batches of a policy that never moves; `size`: samples of a group, batches of a replicate, replicates."""
    place = np.zeros(dimension)
    task = tasks.gaussian_bandit(dimension=dimension)
    policy = policies.gaussian(dimension, temperature=temperature)
    return displaced(task, (place, place), metrics, size).replace(policy=policy)


def colder(factor: float) -> Plant:
    """A plant: the sampler's temperature times a factor."""

    def plant(spec: Spec) -> Spec:
        policy: Any = spec.trained_policy
        return spec.replace(policy=policies.gaussian(policy.dimension, temperature=factor * policy.temperature))

    return plant
