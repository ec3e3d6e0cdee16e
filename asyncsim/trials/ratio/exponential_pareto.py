"""Ratios of normal actions in the plane that are drawn at a temperature below 1, through the loop."""

from __future__ import annotations

import math

from asyncsim import diagnostics
from asyncsim.trials._chains import AFFINITY
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import mean_of, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.ratio._cooled import colder, cooled

_SAMPLES, _BATCHES = 2048, 8
_SPREAD = 2.1
"""Largest relative standard deviation of one sample's quantity at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spread = _SPREAD / math.sqrt(_SAMPLES * _BATCHES)
    replicates = max(16, units_for(spread, effect, 4 * len(trial.points)))
    above = [diagnostics.ratio_above(level) for level in point["levels"]]
    spec = cooled(point["temperature"], 2, [AFFINITY, "log_ratio_mean", *above], (_SAMPLES, _BATCHES, replicates))
    trace = run(spec, seed, plant)
    return {
        "affinity": mean_of(trace, "affinity"),
        "mean_log": mean_of(trace, "log_ratio_mean"),
        **{f"above[{k}]": mean_of(trace, metric.name) for k, metric in enumerate(above)},
    }


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
            lambda spec: cooled(0.3, 1, spec.diagnostics, (_SAMPLES, _BATCHES, spec.replicates)), _HEAVY
        ),
    },
    effect=0.02,
    through="loop",
    elsewhere=({"temperature": 0.25, "levels": (0.5,)},),
)
