"""Gradients of a policy that does not move: a steady mean and isotropic noise, through the loop."""

from __future__ import annotations

import math
from typing import Any

from asyncsim import diagnostics, methods, schedules, tasks, updates
from asyncsim.base.trace import Trace
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._trial import Plant
from asyncsim.updates._link import chain


def run_standing(
    dimension: int, signal: float, noise: float, samples: int, updates_: int, replicates: int, seed: int, plant: Plant
) -> Trace:
    """Steps of length 0 at distance `signal` from the minimum of a quadratic of curvature 1; cosines and products."""
    spec = Spec(
        tasks.quadratic((1.0,) * dimension, noise=noise, start=signal / math.sqrt(dimension)),
        schedules.fixed(2),
        methods.gradient(),
        chain(updates.sgd(0.0)),
        samples_per_group=samples,
        updates=updates_,
        replicates=replicates,
        diagnostics=["gradient_cosine", diagnostics.autocorrelogram(lags=1)],
    )
    return running.run(plant(spec), seed=seed, progress=False)


def batch_used_twice(spec: Spec) -> Spec:
    """Two updates on every batch: half of the neighbors share their samples."""
    return spec.replace(system=schedules.fixed(1), epochs=2)


def one_sample(spec: Spec) -> Spec:
    """A batch of one sample, whatever was asked for."""
    return spec.replace(samples_per_group=1)


def off_center(spec: Spec) -> Spec:
    """A start one standard deviation of the gradient's noise away from the minimum."""
    task: Any = spec.task
    return spec.replace(task=tasks.quadratic(task.curvatures, noise=task.noise, start=task.noise))
