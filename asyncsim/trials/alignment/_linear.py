"""The delayed linear model through the loop: gradients of a noisy quadratic and their autocorrelogram."""

from __future__ import annotations

import numpy as np

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Plant, Point


def products(
    point: Point, curvatures: tuple[float, ...], length: int, after: int, replicates: int, seed: int, plant: Plant
) -> np.ndarray:
    """Products of gradients up to lag staleness + 1 over `length` updates behind a warm-up."""
    tau = point["staleness"]
    spec = descent(
        tasks.quadratic(curvatures, noise=point["noise"]),
        schedules.fixed(tau),
        updates.sgd(point["step"]),
        updates=length + after,
        replicates=replicates,
        diagnostics=[diagnostics.autocorrelogram(lags=tau + 1, after=after)],
    )
    return run(spec, seed, plant).accumulated["autocorrelogram"]


def linear_reach(curvatures: tuple[float, ...], staleness: int, step: float, warm_up: int) -> str | None:
    """Why a run of the trials' length would not be stationary; None where it is.

    The fastest mode must stay well below its boundary (about 1.6/(staleness + 1)), the slowest must relax.
    """
    if max(curvatures) * step > 1.45 / (staleness + 1):
        return f"step * curvature at most 1.45/(staleness + 1) = {1.45 / (staleness + 1):.3g}: slower to settle nearby"
    if min(curvatures) * step * warm_up < 10.0:
        return f"step * curvature at least {10.0 / warm_up:.3g}: slower to settle below"
    return None
