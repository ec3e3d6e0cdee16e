"""Updates from an alarm to a collapse of noiseless delayed descent beyond its boundary, through loop and alarm."""

from __future__ import annotations

from asyncsim.base.records import Estimate, Point
from asyncsim.trials._passages import passage, reach
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._trial import Defect, Plant, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return {"lead": passage(point, seed, plant)}


def _point(staleness: int, step: float, ratio: float) -> Point:
    return {"staleness": staleness, "step": step, "curvature": 1.0, "ratio": ratio}


trial = Trial(
    points=(_point(8, 0.22, 1e4), _point(2, 0.8, 1e9)),
    more=(_point(8, 0.4, 1e12), _point(32, 0.08, 1e12)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(2, 0.8, 1e9)),
        "momentum inserted": Defect(momentum_inserted, _point(2, 0.8, 1e9)),
    },
    effect=0.02,
    reach=reach,
    through="loop",
)
