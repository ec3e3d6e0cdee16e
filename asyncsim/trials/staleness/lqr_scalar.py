"""Largest stable learning rate of stale REINFORCE on scalar control, over every sequence of actions, in the loop."""

from __future__ import annotations

import dataclasses

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import ascent
from asyncsim.trials._threshold import marginal_step
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within

_NUDGE = 1e-7
_SETTINGS = ("drift", "control", "state_cost", "action_cost", "begins", "width", "horizon")


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau = point["staleness"]
    task = tasks.lqr(**{name: point[name] for name in _SETTINGS})
    method = methods.reinforce(advantages.returns_to_go(), at="behavior")

    def build(steps: tuple[float, ...], count: int) -> Spec:
        start = (task.best_gain + _NUDGE,)
        return plant(ascent(task, schedules.fixed(tau), method, steps, count, replicates=len(steps), initial=start))

    # A wide bracket around the inverse of the curvature, which has the squares of the states as well.
    squares = task.begins**2 + (task.control * task.width) ** 2
    near = 1.0 / (task.action_cost + task.control**2 * task.closing) / squares
    return {"step": marginal_step(build, 0.01 * near, 40.0 * near, tau + 2, seed, noise=1e-6)}


def _unpaid_end(spec: Spec) -> Spec:
    """What follows the last step is not paid for."""
    return spec.replace(task=dataclasses.replace(spec.task, closing=0.0))  # type: ignore[type-var]


_BASE = {"drift": 0.9, "control": 0.5, "state_cost": 1.0, "action_cost": 0.5, "begins": 1.0, "width": 0.6, "horizon": 2}
_UNSTABLE = {**_BASE, "drift": 1.4, "control": 1.0, "begins": 0.5, "width": 1.0}


trial = Trial(
    points=({"staleness": 0, **_BASE}, {"staleness": 1, **_UNSTABLE}, {"staleness": 4, **_BASE, "horizon": 1}),
    more=({"staleness": 8, **_BASE}, {"staleness": 4, **_UNSTABLE}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, {"staleness": 4, **_BASE, "horizon": 1}),
        "end not paid for": Defect(_unpaid_end, {"staleness": 1, **_UNSTABLE}),
        "whole returns without a baseline, scores of the trainer": Defect(
            replaced(method=methods.reinforce(advantages.none(), at="current")), {"staleness": 1, **_UNSTABLE}
        ),
    },
    effect=0.02,
    reach=within(horizon=2, staleness=16),
    through="loop",
)
