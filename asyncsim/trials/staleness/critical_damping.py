"""Where stale descent begins to oscillate, and how fast it decays there, on a noiseless quadratic through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import schedules
from asyncsim.base import checks
from asyncsim.learning import running
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._threshold import PROBE, noiseless_descent
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_PERIODS, _GRID, _LATE = 150, 4096, 3e-4
"""Length of a run in delays, steps on the way, and how near to the boundary a sign changes only behind that length."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    delay = point["staleness"] + 1
    steps = np.geomspace(0.05, 1.0, _GRID) / delay / point["curvature"]
    spec = noiseless_descent((point["curvature"],), schedules.fixed(point["staleness"]), plant)(
        tuple(steps), _PERIODS * delay
    )
    gradients = running.run(spec.replace(diagnostics=[PROBE]), seed=seed, progress=False)["probe"]
    first = int(np.argmax((gradients * gradients[0] < 0.0).any(axis=0)))
    checks.require(first > 0, "step from which gradients change their sign", first, "inside the grid", "ask elsewhere")
    found = math.sqrt(steps[first - 1] * steps[first])
    # Two roots are left late in a run, nearly equal: values a delay apart obey a linear recurrence with their product.
    rows = gradients[20 * delay : 24 * delay : delay, first]
    product = (rows[1] * rows[3] - rows[2] ** 2) / (rows[0] * rows[2] - rows[1] ** 2)
    return {
        "step": Estimate(found, tolerance=float(steps[first] - steps[first - 1]) + _LATE * found, samples=_GRID),
        "radius": Estimate(float(product ** (0.5 / delay)), tolerance=1e-3 / delay, samples=1),
    }


def _point(staleness: int) -> Point:
    return {"staleness": staleness, "curvature": 2.0}


trial = Trial(
    points=(_point(1), _point(2), _point(4)),
    more=(_point(3), _point(8)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _point(4)),
        "momentum inserted": Defect(momentum_inserted, _point(2)),
    },
    effect=0.02,
    through="loop",
)
