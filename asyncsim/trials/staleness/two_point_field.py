"""Largest stable learning rate where only some groups of a batch are stale, on quadratics through the loop."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._threshold import marginal_step, noiseless_descent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.staleness._mixed import in_groups, mixture, widened


def _law(point: Point) -> list[float]:
    law = [0.0] * (point["staleness"] + 1)
    law[0] += 1.0 - point["share"]
    law[-1] += point["share"]
    return law


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    curvatures, tau = point["curvatures"], point["staleness"]
    stalenesses, off = in_groups(_law(point))
    build, scale = noiseless_descent(curvatures, mixture(stalenesses), plant), 1.0 / max(curvatures)
    bracket = (0.4 * scale / (1 + tau), 4.5 * scale)
    return {"step": widened(marginal_step(build, *bracket, tau + 2, seed, modes=len(curvatures)), off)}


def _reach(point: Point) -> str | None:
    share = "a share from 0 to 1; take one, a batch has no others"
    return within(staleness=32)(point) or (None if 0.0 <= point["share"] <= 1.0 else share)


def _point(staleness: int, share: float) -> Point:
    return {"staleness": staleness, "share": share, "curvatures": (2.0, 1.0)}


trial = Trial(
    points=(_point(3, 0.75), _point(1, 0.25), _point(4, 0.5), _point(2, 1.0)),
    more=(_point(8, 0.625), _point(5, 0.25), _point(16, 0.875)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(3, 0.75)),
        "all groups stale": Defect(replaced(system=schedules.fixed(3, groups_per_batch=4)), _point(3, 0.75)),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
