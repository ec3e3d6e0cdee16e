"""Mean squared gradient norm of stale descent on a quadratic, through the loop."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.records import Estimate, Point
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.convergence._descent import mean_square


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return mean_square(point, schedules.fixed(point["staleness"]), 4, effect, seed, plant)


_TIGHT = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 1.0, "updates": 400}
_FROM_AFAR = {**_TIGHT, "start": 5.0, "updates": 4}
"""Here the initial gap decides."""

trial = Trial(
    claim="convergence/constant-delay",
    points=(_TIGHT, _FROM_AFAR, {**_TIGHT, "staleness": 4, "step": 0.2}, {**_TIGHT, "staleness": 16, "step": 1.0 / 17}),
    more=({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000},),
    measure=_measure,
    defects={"off-by-one version": Defect(off_by_one_version, _TIGHT)},
    effect=0.05,
    through="loop",
)
