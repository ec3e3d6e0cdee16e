"""Variance of the product's leave-one-out gradient over every possible batch."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.base.uncertainty import between
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import MeanGradient, displaced, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.updates._link import chain

_ROUNDING = 1e-12
_BATCHES, _SAMPLED = 200_000, 100_000
"""Ordered batches that are listed, at most; and batches that are sampled where there are more."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, behavior = np.array(point["rewards"]), np.array(point["behavior_logits"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    method = methods.reinforce(advantages.leave_one_out())
    # Scores are taken at another policy than the data: the variance must be the same.
    current = behavior + np.cos(1.0 + np.arange(len(rewards)))
    if len(rewards) ** point["samples"] > _BATCHES:
        size = point["samples"], 1, _SAMPLED
        gradient = run(displaced(task, (behavior, current), [MeanGradient()], size, method), seed, plant).accumulated
        around = gradient["gradient"] - gradient["gradient"].mean(axis=1, keepdims=True)
        return {"variance": between((around**2).sum(axis=0))._replace(tolerance=_ROUNDING)}
    spec = plant(Spec(task, schedules.frozen(), method, chain()))
    moments = oracle.moments(spec.fitted_task, spec.method, current, behavior, samples=point["samples"])
    return {"variance": Estimate(moments.variance, tolerance=_ROUNDING)}


_POINT = {"rewards": (0.0, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "samples": 4}

trial = Trial(
    points=(_POINT, {**_POINT, "samples": 2}, {"rewards": (0.0, 1.0), "behavior_logits": (0.0, 1.7), "samples": 8}),
    more=({"rewards": (0.2, 0.1, 0.9, 0.4), "behavior_logits": (0.0, 1.0, -1.0, 0.5), "samples": 6},),
    measure=_measure,
    defects={
        "mean of the whole group": Defect(with_method(advantage=advantages.group_mean()), _POINT),
        "no baseline": Defect(with_method(advantage=advantages.none()), _POINT),
    },
    effect=0.02,
    through="oracle",
)
