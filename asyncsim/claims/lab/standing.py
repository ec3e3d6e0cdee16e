"""Gradients of a policy that does not move: a steady mean and isotropic noise, through the loop."""

from __future__ import annotations

import math
from typing import Any

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.base.trace import Trace
from asyncsim.claims._trial import Plant, replaced
from asyncsim.claims.lab.runs import descent, run
from asyncsim.running.spec import Spec


def run_standing(
    dimension: int, signal: float, noise: float, samples: int, updates_: int, replicates: int, seed: int, plant: Plant
) -> Trace:
    """Learning rate 0 at distance `signal` from the minimum of a quadratic of curvature 1; cosines and products."""
    spec = descent(
        tasks.quadratic((1.0,) * dimension, noise=noise, start=signal / math.sqrt(dimension)),
        schedules.fixed(2),
        updates.sgd(0.0),
        samples_per_group=samples,
        updates=updates_,
        replicates=replicates,
        diagnostics=["gradient_cosine", diagnostics.autocorrelogram(lags=1)],
    )
    return run(spec, seed, plant)


batch_used_twice = replaced(system=schedules.fixed(1), epochs=2)
"""Two updates on every batch: half of the neighbors share their samples."""


def off_center(spec: Spec) -> Spec:
    """A start one standard deviation of the gradient's noise away from the minimum."""
    task: Any = spec.task
    return spec.replace(task=tasks.quadratic(task.curvatures, noise=task.noise, start=task.noise))
