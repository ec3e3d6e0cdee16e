"""Installs that a sample sees while it is generated, cell by cell, on the event kernel."""

from __future__ import annotations

from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.systems._clocked import completions, crowded, per_sample, slow_installs
from asyncsim.trials.systems._kernel_defects import end_stamped_early
from asyncsim.trials.systems._windows import realizations_for

_COMPLETIONS = 6000
"""Samples of one realization."""
_SPREAD = 0.045
"""Largest standard deviation of one realization's quantity at the points below, by its scale (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    cells = point["cells"]
    realizations = realizations_for(_SPREAD, effect, 0.0, 32)
    window = _COMPLETIONS * laws.as_law("length", point["length"]).mean() / point["places"]
    heads = [completions(point, window, m, seed, plant).head for m in range(realizations)]
    estimates = {"mean": per_sample(heads)}
    estimates |= {f"p[{k}]": per_sample([h == k for h in heads]) for k in range(cells)}
    return estimates | {"tail": per_sample([h >= cells for h in heads])}


def _point(length: str, period: float, places: int, cells: int = 6) -> Point:
    return {"length": length, "period": period, "places": places, "groups_per_batch": 8, "cells": cells}


_LOGNORMAL = _point("lognormal:1.0:0.8", 0.4, 64)


def _reach(point: Point) -> str | None:
    law = laws.as_law("length", point["length"])
    if law.kind == "pareto" and law.parameters[1] <= 2.0:
        return "a Pareto index above 2; take a lighter tail, whose mean a run measures"
    return crowded(point)


trial = Trial(
    points=(_LOGNORMAL, _point("exponential:1.0", 1.0, 32, 3)),
    more=(_point("gamma:1.0:4.0", 0.25, 64),),
    measure=_measure,
    defects={
        "ends stamped a version early": Defect(end_stamped_early, _LOGNORMAL),
        "the trainer waits for installs": Defect(slow_installs, _LOGNORMAL),
        "starts tied to installs": Defect(
            lambda system: system.replace(
                tickets=len(system.rates), release="publish", capacity=None, overflow="block"
            ),
            _LOGNORMAL,
        ),
    },
    effect=0.05,
    reach=_reach,
    through="kernel",
)
