"""Ratios of normal actions in the plane that are drawn at a temperature below 1, through the loop."""

from __future__ import annotations

from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.ratio._cooled import BATCHES, SAMPLES, colder, cooled, measured


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    return measured(point, 2, len(trial.points), effect, seed, plant)


_HEAVY = {"temperature": 0.3, "levels": (0.45, 0.8)}
_LIGHT = {"temperature": 0.45, "levels": (0.5, 0.9)}

trial = Trial(
    points=(_HEAVY, _LIGHT),
    more=({"temperature": 0.15, "levels": (0.3, 0.5)},),
    measure=_measure,
    defects={
        "sampler 5 percent colder than it says": Defect(colder(0.95), _LIGHT),
        "scored at another temperature": Defect(with_policy(Tempered), _LIGHT),
        "on a line in place of the plane": Defect(
            lambda spec: cooled(0.3, 1, spec.diagnostics, (SAMPLES, BATCHES, spec.replicates)), _HEAVY
        ),
    },
    effect=0.02,
    through="loop",
)
