"""Updates from an alarm to a collapse of noiseless delayed descent beyond its boundary, through loop and alarm."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import schedules
from asyncsim.base.records import Estimate, Point
from asyncsim.predicting import Signal, scores
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import run
from asyncsim.trials._threshold import noiseless_descent
from asyncsim.trials._trial import Defect, Plant, Trial

_LEVELS = 96
_SETTLED = 1e3
"""Amplitude, in units of the start, from which on other modes have died out."""
_RESOLUTION = 0.004
"""Half a period of the oscillation that is cut off, over the mean of all levels, at the points below at most."""
_LONGEST = 20_000


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    ratio, first = point["ratio"], 1e-6 * point["curvature"] * _SETTLED
    # Alarms at levels over as wide a range again, so that every phase of the oscillation has its part.
    levels = first * ratio ** np.linspace(0.0, 1.0, _LEVELS, endpoint=False)
    build = noiseless_descent((point["curvature"],), schedules.fixed(point["staleness"]))
    spec = plant(build((point["step"],), _length(point)))
    norm = Signal("gradient_norm", window=1)({"gradient_norm": run(spec, seed, lambda whole: whole)["gradient_norm"]})
    only = np.zeros(1, dtype=int)

    def passed(level: float) -> int:
        """First update above the level."""
        end = np.array([len(norm)])
        return len(norm) - int(scores.announced(norm, only, end, None, level)[0])

    collapse = [passed(ratio * level) for level in levels]
    leads = [scores.announced(norm, only, np.array([t]), None, x)[0] for t, x in zip(collapse, levels, strict=True)]
    mean = float(np.mean(leads))
    return {"lead": Estimate(mean, tolerance=_RESOLUTION * mean, samples=_LEVELS)}


def _length(point: Point) -> int:
    """Updates that surely reach the highest level: near the boundary growth is slow in proportion to what is above."""
    above = point["step"] * point["curvature"] * (2 * point["staleness"] + 1) / math.pi - 1.0
    nats = 2.0 * math.log(point["ratio"]) + math.log(_SETTLED) + 3.0
    return math.ceil(nats * (point["staleness"] + 1) * (1.1 + 1.25 / max(above, 1e-3)))


def _reach(point: Point) -> str | None:
    if _length(point) > _LONGEST:
        return f"runs of at most {_LONGEST} updates: growth next to the boundary is slow"
    return None if point["ratio"] <= 1e60 else "a ratio of at most 1e60"


def _point(staleness: int, step: float, ratio: float) -> Point:
    return {"staleness": staleness, "step": step, "curvature": 1.0, "ratio": ratio}


trial = Trial(
    points=(_point(8, 0.22, 1e5), _point(8, 0.4, 1e12), _point(2, 0.8, 1e9)),
    more=(_point(32, 0.08, 1e12),),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(8, 0.4, 1e12)),
        "momentum inserted": Defect(momentum_inserted, _point(2, 0.8, 1e9)),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
    elsewhere=({"staleness": 16, "step": 0.2, "ratio": 1e12}, {"curvature": 2.0}),
    refused=({"step": 0.18485},),
)
