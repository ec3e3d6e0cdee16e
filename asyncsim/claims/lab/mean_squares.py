"""Mean squared gradient norm of descent on a quadratic, sized for a bound."""

from __future__ import annotations

from typing import Any

from asyncsim import tasks, updates
from asyncsim.base.records import Estimate, Point
from asyncsim.base.uncertainty import between
from asyncsim.claims._trial import Plant, units_for
from asyncsim.claims.lab.runs import descent, run

SPREAD = 0.12
"""Relative standard deviation of one replicate's mean square where a bound is tight; measured, it is at most 0.09. The
larger value tests the term of a delay, 0.38 of the bound, as sharply as the whole."""


def mean_square(
    point: Point, schedule: Any, comparisons: int, effect: float, seed: int, plant: Plant
) -> dict[str, Estimate]:
    """Squared norm of the exact gradient, averaged over the updates of a run under a schedule, then over replicates."""
    # Where the measurement is at 0.97 of the bound, a bound lower by the effect is exceeded by 0.02 at least.
    replicates = units_for(SPREAD, 0.4 * effect, comparisons, kind="bound")
    spec = descent(
        tasks.quadratic((point["curvature"],), noise=point["noise"], start=point["start"]),
        schedule,
        updates.sgd(point["step"]),
        updates=point["updates"],
        replicates=replicates,
        diagnostics=["exact_gradient_norm"],
    )
    norm = run(spec, seed, plant)["exact_gradient_norm"]
    return {"bound": between((norm**2).mean(axis=0))}
