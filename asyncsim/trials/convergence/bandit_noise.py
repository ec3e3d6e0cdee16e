"""Variance of the product's leave-one-out gradient over every possible batch."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.base.records import Estimate, Point
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.updates._link import chain

_ROUNDING = 1e-12
_BATCHES = 200_000
"""Ordered batches that are listed, at most."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, behavior = np.array(point["rewards"]), np.array(point["behavior_logits"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    spec = plant(Spec(task, schedules.frozen(), methods.reinforce(advantages.leave_one_out()), chain()))
    # Scores are taken elsewhere than where the data comes from: the variance must not notice.
    current = behavior + np.cos(1.0 + np.arange(len(rewards)))
    found = oracle.moments(spec.fitted_task, spec.method, current, behavior, samples=point["samples"])
    return {"variance": Estimate(found.variance, tolerance=_ROUNDING)}


def _reach(point: Point) -> str | None:
    count = len(point["rewards"]) ** point["samples"]
    return None if count <= _BATCHES else f"samples = {point['samples']}: must list <= {_BATCHES} batches; lower it"


def _group_mean(spec: Spec) -> Spec:
    """The mean over the whole group as baseline: every gradient shrinks by (N-1)/N."""
    return spec.replace(method=spec.method.replace(advantage=advantages.group_mean()))


def _no_baseline(spec: Spec) -> Spec:
    """Raw rewards as advantages."""
    return spec.replace(method=spec.method.replace(advantage=advantages.none()))


_POINT = {"rewards": (0.0, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "samples": 4}

trial = Trial(
    claim="convergence/bandit-noise",
    points=(_POINT, {**_POINT, "samples": 2}, {"rewards": (0.0, 1.0), "behavior_logits": (0.0, 1.7), "samples": 8}),
    more=({"rewards": (0.2, 0.1, 0.9, 0.4), "behavior_logits": (0.0, 1.0, -1.0, 0.5), "samples": 6},),
    measure=_measure,
    reach=_reach,
    defects={"mean of the whole group": Defect(_group_mean, _POINT), "no baseline": Defect(_no_baseline, _POINT)},
    effect=0.02,
    through="oracle",
    elsewhere=({"samples": 3}, {"rewards": (1.0, 1.0, 1.0)}),
)
