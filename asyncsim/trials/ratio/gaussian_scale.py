"""Ratios of normal actions that are drawn at a temperature below 1, through the loop."""

from __future__ import annotations

from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.ratio._cooled import colder, measured


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return measured(point, point["dimension"], len(trial.points), effect, seed, plant)


_LINE = {"temperature": 0.2, "dimension": 1, "levels": (0.6, 0.8)}
_SPACE = {"temperature": 0.4, "dimension": 3, "levels": (0.5, 0.9)}

trial = Trial(
    points=(_LINE, _SPACE),
    more=({"temperature": 0.3, "dimension": 5, "levels": (0.3, 0.5)},),
    measure=_measure,
    defects={
        "sampler 5 percent colder than it says": Defect(colder(0.95), _SPACE),
        "scored at another temperature": Defect(with_policy(Tempered), _SPACE),
    },
    effect=0.02,
    through="loop",
)
