"""Normal actions drawn at a temperature below 1 and scored by the policy itself: ratios with a power-law tail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import diagnostics, policies, tasks
from asyncsim.claims._trial import Estimate, Plant, Point, units_for
from asyncsim.claims.lab.chains import AFFINITY
from asyncsim.claims.lab.runs import displaced, mean_of, run, share_of
from asyncsim.running.spec import Spec

SAMPLES, BATCHES = 2048, 8
_SPREAD = 2.1
"""Largest relative standard deviation of one sample's quantity at the points of the trials (measured)."""


def cooled(temperature: float, dimension: int, metrics: list[Any], size: tuple[int, int, int]) -> Spec:
    """Batches of a policy that never moves; `size`: samples of a group, batches of a replicate, replicates."""
    place = np.zeros(dimension)
    task = tasks.gaussian_bandit(dimension=dimension)
    policy = policies.gaussian(dimension, temperature=temperature)
    return displaced(task, (place, place), metrics, size).replace(policy=policy)


def measured(point: Point, dimension: int, points: int, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    """Affinity, mean log ratio and shares of ratios above the point's levels, for a trial of so many points."""
    spread = _SPREAD / math.sqrt(SAMPLES * BATCHES)
    replicates = max(16, units_for(spread, effect, 4 * points))
    above = [diagnostics.ratio_above(level) for level in point["levels"]]
    metrics = [AFFINITY, "log_ratio_mean", *above]
    trace = run(cooled(point["temperature"], dimension, metrics, (SAMPLES, BATCHES, replicates)), seed, plant)
    return {
        "affinity": mean_of(trace, "affinity"),
        "mean_log": mean_of(trace, "log_ratio_mean"),
        **{f"above[{k}]": share_of(trace[metric.name][1:], SAMPLES) for k, metric in enumerate(above)},
    }


def colder(factor: float) -> Plant:
    """A plant: the sampler's temperature times a factor."""

    def plant(spec: Spec) -> Spec:
        policy: Any = spec.trained_policy
        return spec.replace(policy=policies.gaussian(policy.dimension, temperature=factor * policy.temperature))

    return plant
