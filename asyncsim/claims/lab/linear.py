"""The delayed linear model through the loop: gradients of a noisy quadratic and their autocorrelogram."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.claims._trial import Plant, Point, units_for
from asyncsim.claims.lab.runs import descent, run

_LONGEST, _DRAWN = 3000, 16_000.0
"""Updates of a warm-up, and gradients of all replicates times the square of the effect, at most."""


def products(
    point: Point, curvatures: tuple[float, ...], length: int, spread: float, effect: float, comparisons: int, seed: int,
    plant: Plant,
) -> np.ndarray:  # fmt: skip
    """Products of gradients up to lag staleness + 1 over `length` updates behind a warm-up.

    In as many replicates as the effect needs, `spread` the relative standard deviation of one, or as are affordable.
    """
    tau = point["staleness"]
    after = warm_up(curvatures, tau, point["step"])
    replicates = min(units_for(spread, effect, comparisons), int(_DRAWN / effect**2 / (length + after)))
    spec = descent(
        tasks.quadratic(curvatures, noise=point["noise"]),
        schedules.fixed(tau),
        updates.sgd(point["step"]),
        updates=length + after,
        replicates=replicates,
        diagnostics=[diagnostics.autocorrelogram(lags=tau + 1, after=after)],
    )
    return run(spec, seed, plant).accumulated["autocorrelogram"]


def warm_up(curvatures: tuple[float, ...], staleness: int, step: float) -> int:
    """Updates that are left out: ten times what the slowest mode takes to fall by a factor of e, or 60 delays."""
    largest = 0.0
    for share in (step * min(curvatures), step * max(curvatures)):
        recurrence = np.zeros(staleness + 2)
        recurrence[:2] = 1.0, -1.0
        recurrence[-1] += share
        largest = max(largest, float(np.abs(np.roots(recurrence)).max(initial=0.0)))
    relaxation = -1.0 / math.log(max(largest, 1e-9)) if largest < 1.0 else math.inf
    return int(min(max(60 * (staleness + 1), 10.0 * relaxation), 10 * _LONGEST))


def linear_reach(curvatures: tuple[float, ...], staleness: int, step: float) -> str | None:
    """Why a run of the trials' length would not be stationary; None where it is."""
    updates = warm_up(curvatures, staleness, step)
    if updates > _LONGEST:
        return f"a warm-up of at most {_LONGEST} updates, not {updates}; take steps nearer to half of the boundary"
    return None
