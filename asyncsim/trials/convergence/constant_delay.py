"""Mean squared gradient norm of stale descent on a quadratic, through the loop."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.convergence._descent import mean_square


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return mean_square(point, schedules.fixed(point["staleness"]), 5, effect, seed, plant)


_TIGHT = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 1.0, "updates": 400}
_FROM_AFAR = {**_TIGHT, "start": 50.0, "updates": 4}
"""Here the initial gap decides."""
_ONE_LATE = {**_TIGHT, "staleness": 1, "step": (5.0**0.5 - 1.0) / 2.0, "start": 0.0, "updates": 1000}
"""At the largest step, with a + a^2 = 1: attained, and the delay carries 0.38 of the bound."""
_TWO_LATE = {**_TIGHT, "staleness": 2, "step": 0.39, "start": 0.0, "updates": 1000}
_LATE = {**_TIGHT, "staleness": 16, "step": 0.0605, "start": 0.0, "updates": 2000}

trial = Trial(
    points=(_TIGHT, _FROM_AFAR, _ONE_LATE, _TWO_LATE, _LATE),
    more=({**_TIGHT, "curvature": 2.0, "step": 0.5, "updates": 1000}, {**_TIGHT, "staleness": 4, "step": 0.2}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _TIGHT),
        "off-by-one version at constant staleness": Defect(off_by_one_version, _ONE_LATE),
    },
    effect=0.05,
    through="loop",
    loose=frozenset({"noise of staleness above 1"}),
)
