"""Largest stable learning rate where weights are published every so many updates, on quadratics through the loop."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._threshold import marginal_step, noiseless_descent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    cycle, versions, curvatures = point["updates"], point["versions"], point["curvatures"]
    fresh = schedules.sawtooth(cycle)
    system = schedules.fixed(versions, batches_per_publish=cycle) if versions else fresh
    build, scale = noiseless_descent(curvatures, system, plant), 1.0 / max(curvatures) / cycle
    bracket, modes = (0.4 * scale / (1 + versions), 5.0 * scale), len(curvatures)
    return {"step": marginal_step(build, *bracket, versions + 2, seed, every=cycle, modes=modes)}


def _point(updates: int, versions: int) -> Point:
    return {"updates": updates, "versions": versions, "curvatures": (2.0,)}


trial = Trial(
    points=(_point(4, 1), _point(8, 0), {**_point(3, 2), "curvatures": (2.0, 1.0)}),
    more=(_point(1, 1), _point(16, 0), _point(12, 2)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(8, 0)),
        "published an update late": Defect(replaced(system=schedules.sawtooth(9)), _point(8, 0)),
        "staleness in updates": Defect(replaced(system=schedules.fixed(4)), _point(4, 1)),
    },
    effect=0.02,
    reach=within(versions=8),
    through="loop",
)
