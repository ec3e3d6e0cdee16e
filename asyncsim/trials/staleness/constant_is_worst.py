"""Stable learning rates of batches that mix stalenesses, beside those of their mean staleness, through the loop."""

from __future__ import annotations

from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.staleness._mixed import step_of


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    step = step_of(point, seed, plant)
    inverse = 1.0 / step.value
    return {"inverse_step": step._replace(value=inverse, tolerance=step.tolerance * inverse / step.value)}


def _point(*law: float) -> Point:
    return {"law": law, "curvature": 2.0}


_CONSTANT = _point(0.0, 0.0, 0.0, 0.0, 1.0)

trial = Trial(
    points=(_CONSTANT, _point(0.5, 0.5), _point(0.75, 0.0, 0.0, 0.25), _point(0.0, 0.125, 0.75, 0.125)),
    more=(_point(0.0, 1.0), _point(0.875, *[0.0] * 7, 0.125), _point(0.0, 0.0, 0.5, 0.5)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _CONSTANT),
        "momentum inserted": Defect(momentum_inserted, _CONSTANT),
    },
    effect=0.02,
    through="loop",
)
