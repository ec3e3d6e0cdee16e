"""Step times updates until drift from frozen data, or growth under delay, goes beyond a limit, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base.records import Estimate, Point
from asyncsim.trials._passages import passage, reach
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Plant, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    growing = passage(point, seed, plant)
    step = point["step"]
    delay = Estimate(step * growing.value, tolerance=step * growing.tolerance, samples=growing.samples)
    return {"drift": Estimate(step * _drift(point, seed, plant), tolerance=1e-9), "delay": delay}


def _drift(point: Point, seed: int, plant: Plant) -> float:
    """Updates until the stale gradient of version 0 is off by `radius` of itself, read between two updates."""
    curvature, step = point["curvature"], point["step"]
    count = math.ceil(point["radius"] / (step * curvature)) + 4
    spec = descent(
        tasks.quadratic((curvature,), noise=0.0, start=1.0),
        schedules.frozen(),
        updates.sgd(step),
        updates=count,
        replicates=1,
        sampling="enumerate",
        diagnostics=["bias"],
    )
    bias = run(spec, seed, plant)["bias"][:, 0] / curvature
    return float(np.interp(point["radius"], bias, np.arange(count)))


def _point(staleness: int, step: float, ratio: float) -> Point:
    return {"staleness": staleness, "step": step, "curvature": 1.0, "ratio": ratio, "radius": 20.0}


_FAR = _point(4, 0.7, 1e9)

trial = Trial(
    points=(_point(4, 0.42, 1e3), _FAR),
    more=(_point(8, 0.35, 1e9), _point(16, 0.12, 1e6)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _FAR),
        "momentum inserted": Defect(momentum_inserted, _FAR),
    },
    effect=0.02,
    reach=reach,
    through="loop",
)
