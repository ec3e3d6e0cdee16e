"""Largest stable learning rate of a regularized softmax bandit under staggered workers, through kernel and loop."""

from __future__ import annotations

from asyncsim import advantages, methods, systems
from asyncsim.base import laws
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.staleness import _soft


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    beta, task = point["kl"], _soft.bandit(point)
    method = methods.reinforce(advantages.leave_one_out())
    system = systems.update_on_arrival(point["workers"], laws.constant(1.0), stagger=True)
    return _soft.boundary(task, system, method, _soft.optimum(task), beta, point["workers"] - 1, seed, plant)


_POINT = {"rewards": (0.0, 0.4, 1.0), "reference_logits": (0.5, 0.0, -0.5), "kl": 0.5}

trial = Trial(
    points=tuple({"workers": n, **_POINT} for n in (1, 2, 5)),
    more=({"workers": 9, **_POINT}, {"workers": 4, "rewards": (0.0, 1.0), "reference_logits": (0.0, 0.0), "kl": 1.0}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, {"workers": 5, **_POINT}),
        "penalty at current log-probs": Defect(_soft.penalty_at("current"), {"workers": 5, **_POINT}),
    },
    effect=0.02,
    reach=_soft.why_flat,
    through="kernel, loop",
)
