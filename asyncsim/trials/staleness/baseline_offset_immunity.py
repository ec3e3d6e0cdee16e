"""Largest stable learning rate of a stale regularized bandit with a fixed baseline, through the loop."""

from __future__ import annotations

from asyncsim import advantages, methods, schedules
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.staleness import _soft


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    beta, tau, task = point["kl"], point["staleness"], _soft.bandit(point)
    start = _soft.optimum(task)
    # At the optimum all arms earn the same, so that a fixed baseline moves nothing there.
    method = methods.reinforce(advantages.offset(_soft.value(task, start) - point["offset"]))
    return _soft.boundary(task, schedules.fixed(tau), method, start, beta, tau, seed, plant)


def _group_baseline(spec: Spec) -> Spec:
    """The group's own mean in place of the fixed baseline."""
    return spec.replace(method=spec.method.replace(advantage=advantages.group_mean()))


def _point(offset: float, staleness: int) -> Point:
    point = {"rewards": (0.0, 0.4, 1.0), "reference_logits": (0.5, 0.0, -0.5), "kl": 0.5}
    return {**point, "staleness": staleness, "offset": offset}


trial = Trial(
    points=(_point(0.15, 3), _point(0.35, 2), _point(-0.25, 2)),
    more=(_point(0.5, 4), _point(-0.5, 8), _point(0.75, 3)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(0.15, 3)),
        "baseline of the group": Defect(_group_baseline, _point(0.15, 3)),
        "penalty at current log-probs": Defect(_soft.penalty_at("current"), _point(-0.25, 2)),
    },
    effect=0.02,
    reach=_soft.reach,
    through="loop",
)
