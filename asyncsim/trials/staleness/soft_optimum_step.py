"""Largest stable learning rate of a regularized softmax bandit under staggered workers, through kernel and loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, methods, schedules, systems, tasks
from asyncsim.base import laws
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import ascent
from asyncsim.trials._threshold import largest_stable_step
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms, beta = len(point["rewards"]), point["kl"]
    task = tasks.softmax_bandit(
        arms, point["rewards"], rewards="fixed", kl_coef=beta, reference=point["reference_logits"], kl_at="behavior"
    )
    method = methods.reinforce(advantages.leave_one_out())
    # The product itself computes the optimum, synchronously and with a small learning rate.
    optimum = running.run(ascent(task, schedules.fixed(0), method, 1.0 / beta, 300), progress=False).parameters[0]
    nudge = np.cos(1.0 + np.arange(arms))
    system = systems.update_on_arrival(point["workers"], laws.constant(1.0), stagger=True)

    def build(steps: tuple[float, ...], count: int) -> Spec:
        options = {"replicates": len(steps), "initial": optimum + 1e-6 * nudge, "diagnostics": ["gradient_norm"]}
        return plant(ascent(task, system, method, steps, count, **options))

    return {"step": largest_stable_step(build, 0.1 / beta, 40.0 / beta, point["workers"] - 1, seed)}


def _penalty_at_current(spec: Spec) -> Spec:
    """The penalty read at current instead of behavior log-probs."""
    task: Any = spec.task
    return spec.replace(
        task=tasks.softmax_bandit(
            task.actions,
            task.means,
            rewards="fixed",
            kl_coef=task.penalty.coefficient,
            reference=task.penalty.reference,
            kl_at="current",
        )
    )


_POINT = {"rewards": (0.0, 0.4, 1.0), "reference_logits": (0.5, 0.0, -0.5), "kl": 0.5}

trial = Trial(
    points=tuple({"workers": n, **_POINT} for n in (1, 2, 5)),
    more=({"workers": 9, **_POINT}, {"workers": 4, "rewards": (0.0, 1.0), "reference_logits": (0.0, 0.0), "kl": 1.0}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, {"workers": 5, **_POINT}),
        "penalty at current log-probs": Defect(_penalty_at_current, {"workers": 5, **_POINT}),
    },
    effect=0.05,
    through="kernel, loop",
    elsewhere=({"workers": 3, "kl": 1.5},),
)
