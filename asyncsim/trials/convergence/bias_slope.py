"""Growth of a stale gradient's bias with learning rate and staleness, behavior frozen meanwhile, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.trials._plants import momentum_inserted
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for

_SPREAD = 1.0
"""Standard deviation of one replicate's linearized slope (measured: at most 0.9 at the points below)."""


def _squares(point: Point, staleness: int, step: float, replicates: int, seed: int, plant: Plant) -> np.ndarray:
    """Squared bias `[R]` after `staleness` updates that all used data of version 0."""
    spec = descent(
        tasks.quadratic((point["curvature"],), noise=point["noise"], start=point["start"]),
        schedules.sawtooth(staleness + 1),
        updates.sgd(step),
        updates=staleness + 1,
        replicates=replicates,
        diagnostics=["bias"],
    )
    return run(spec, seed, plant)["bias"][-1] ** 2


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = units_for(_SPREAD, effect, 4, scale=0.5)
    if "steps" in point:
        varied = point["steps"]
        rows = [_squares(point, point["staleness"], s, replicates, seed + k, plant) for k, s in enumerate(varied)]
    else:
        varied = point["stalenesses"]
        rows = [_squares(point, n, point["step"], replicates, seed + k, plant) for k, n in enumerate(varied)]
    # The slope of log rms is half that of log mean square.
    slope = uncertainty.slope(varied, np.stack(rows, axis=1), log=True)
    return {"slope": slope._replace(value=slope.value / 2, error=slope.error / 2, tolerance=1e-9)}


_BASE = {"curvature": 1.0, "start": 1.0}
_MIXED = {**_BASE, "noise": 3.0, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16, 32)}

trial = Trial(
    points=(
        {**_BASE, "noise": 0.3, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16)},
        _MIXED,
        {**_BASE, "noise": 30.0, "step": 0.01, "stalenesses": (1, 2, 4, 8, 16)},
        {**_BASE, "noise": 3.0, "staleness": 8, "steps": (0.001, 0.002, 0.004, 0.008)},
    ),
    measure=_measure,
    defects={"momentum inserted": Defect(momentum_inserted, _MIXED)},
    effect=0.05,
    through="loop",
)
