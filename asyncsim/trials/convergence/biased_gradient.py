"""Mean squared gradient norm of descent on a quadratic with gradients that are biased by their staleness."""

from __future__ import annotations

from asyncsim import schedules
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.convergence._descent import mean_square


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    bound = mean_square(point, schedules.fixed(point["staleness"]), 4, effect, seed, plant)["bound"]
    # Where the bound is attained, rounding decides which is larger.
    return {"bound": bound._replace(tolerance=1e-9 * abs(bound.value))}


_FRESH = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 0.0, "updates": 400}
_FROM_AFAR = {**_FRESH, "start": 50.0, "updates": 4}
_BIASED = {**_FRESH, "staleness": 1, "noise": 0.0, "start": 1.0, "updates": 601}
"""The path 1, 0, -1, -1, 0, 1 repeats: bias and gradient are of one size."""

trial = Trial(
    points=(_FRESH, _FROM_AFAR, _BIASED, {**_BIASED, "start": 3.0, "updates": 160}),
    more=({**_BIASED, "curvature": 2.0, "step": 0.5, "start": -3.0},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _FRESH),
        "momentum inserted": Defect(momentum_inserted, _FRESH),
    },
    effect=0.02,
    through="loop",
)
