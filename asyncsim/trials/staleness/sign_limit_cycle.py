"""The cycle of Adam without memory on a noiseless quadratic with constant staleness, through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.updates._link import chain

_PLACE = Metric("place", lambda step: step.parameters[:, 0])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tau, step, start = point["staleness"], point["step"], point["start"]
    # The way to 0, and some cycles more.
    way, count = math.ceil(start) + 4 * tau + 6, math.ceil(start) + 16 * tau + 24
    task = tasks.quadratic((point["curvature"],), noise=0.0, start=start * step)
    memoryless = updates.adam(step, 0.0, 0.0, eps=0.0)
    options = {"updates": count, "replicates": 1, "sampling": "enumerate", "diagnostics": [_PLACE]}
    place = run(descent(task, schedules.fixed(tau), memoryless, **options), seed, plant)["place"][:, 0]
    # The shortest shift under which all of what follows repeats itself.
    rest = place[way:]
    returned = [p for p in range(1, rest.size // 2) if np.abs(rest[p:] - rest[:-p]).max() < 1e-6 * step]
    period = min(returned, default=rest.size)
    cycle = rest[:period]
    return {
        "range": Estimate(float(np.ptp(cycle)), tolerance=1e-6 * step),
        "period": Estimate(float(period)),
        "variance": Estimate(float(cycle.var()), tolerance=1e-6 * step**2),
    }


_POINT = {"staleness": 4, "step": 0.1, "start": 2.3, "curvature": 2.0}

trial = Trial(
    points=(_POINT, {**_POINT, "staleness": 0}, {**_POINT, "staleness": 1}),
    more=({**_POINT, "staleness": 16}, {**_POINT, "staleness": 8, "start": 11.7, "curvature": 0.3}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "momentum inserted": Defect(momentum_inserted, _POINT),
        "steps in proportion to the gradient": Defect(replaced(update=chain(updates.sgd(0.1))), _POINT),
    },
    effect=0.02,
    through="loop",
)
