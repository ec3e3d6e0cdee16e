"""Cosines of independent gradients without a mean, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.alignment._standing import batch_used_twice, off_center, run_standing

_UPDATES = 130
_RARE = 0.02


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    d, threshold = point["dimension"], point["threshold"]
    # Of one replicate's share of exceedances, which is the least precise; neighbors are independent of each other.
    spread = math.sqrt((1.0 - _RARE) / _RARE / (_UPDATES - 1)) * (1.0 if d * threshold**2 > 2.0 else 0.5)
    replicates = units_for(spread, effect, 6)
    trace = run_standing(d, 0.0, 1.0, 1, _UPDATES, replicates, seed, plant)
    # The first gradient has none before it.
    cosine = np.asarray(trace["gradient_cosine"][1:]).T
    statistics = {"mean_size": np.abs(cosine), "square": cosine**2, "exceeds": (cosine > threshold).astype(float)}
    return {name: uncertainty.between(values) for name, values in statistics.items()}


def _reach(point: Point) -> str | None:
    d, threshold = point["dimension"], point["threshold"]
    if d > 256:
        return "dimension at most 256; lower it, longer vectors take longer than a trial"
    if threshold * math.sqrt(d) > 2.0:
        return f"threshold at most {2.0 / math.sqrt(d):.3g} = 2/sqrt(dimension); lower it, events beyond are too rare"
    return None


_AT_FOUR = {"dimension": 4, "threshold": 0.5}

trial = Trial(
    points=(_AT_FOUR, {"dimension": 20, "threshold": 0.3}),
    more=({"dimension": 100, "threshold": 0.2}, {"dimension": 2, "threshold": 0.3}),
    measure=_measure,
    defects={
        "mean gradient left in": Defect(off_center, _AT_FOUR),
        "batch used twice": Defect(batch_used_twice, _AT_FOUR),
    },
    effect=0.05,
    reach=_reach,
    through="loop",
)
