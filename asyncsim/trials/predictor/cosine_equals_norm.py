"""Norms and cosines of gradients of one mode beside the noise of many, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import between
from asyncsim.trials._plants import momentum_inserted, off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Plant, Trial, replaced, units_for, within

_PARAMETERS, _FLAT = 1000, 1e-9
_SPREAD = 0.05
"""Of one replicate, relative: noise crosses the signal with 1/sqrt(P) of its length (measured: at most 0.03)."""
_FINITE = 2e-3
"""Allowance for terms of order 1/P, relative: 1000 coordinates."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    """The one mode starts so far out that its gradient is `signal` times as long as the noise of a batch."""
    noise = np.sqrt(_PARAMETERS / point["samples"])
    spec = descent(
        tasks.quadratic((1.0,) + (_FLAT,) * (_PARAMETERS - 1), noise=1.0, start=float(point["signal"] * noise)),
        schedules.fixed(point["staleness"]),
        updates.sgd(point["share"]),
        samples_per_group=point["samples"],
        updates=point["updates"],
        replicates=max(16, units_for(_SPREAD, effect - 2.0 * _FINITE, 3 * len(trial.points))),
        diagnostics=["gradient_norm", "gradient_cosine"],
    )
    trace = run(spec, seed, plant)
    found = {"cosine": between(np.abs(trace["gradient_cosine"][-1]))}
    for k in range(2):
        norm = between(trace["gradient_norm"][-1 - k] / noise)
        found[f"norm[{k}]"] = norm
    return {name: one._replace(tolerance=_FINITE * one.value) for name, one in found.items()}


_FRESH = {"staleness": 0, "share": 0.05, "signal": 2.0, "samples": 2, "updates": 4}
_STALE = {"staleness": 2, "share": 0.06, "signal": 2.5, "samples": 1, "updates": 8}

trial = Trial(
    points=(_FRESH, _STALE),
    measure=_measure,
    defects={
        "one sample more in a batch": Defect(replaced(samples_per_group=3), _FRESH),
        "off-by-one version": Defect(off_by_one_version, _STALE),
        "momentum inserted": Defect(momentum_inserted, _STALE),
    },
    effect=0.02,
    reach=within(samples=16),
    through="loop",
)
