"""The staleness law of exponential workers, cell by cell, on the event kernel."""

from __future__ import annotations

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for, within
from asyncsim.trials.systems._heads import law_of, restarts_early, stationary_heads, ticket_lost

_UPDATES = 8000
_SPREAD = 0.1
"""Largest relative standard deviation of one realization's cell at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    realizations = max(32, units_for(_SPREAD, effect, 16))
    system = plant(systems.update_on_arrival(point["workers"], laws.exponential(1.0), point.get("rates")))
    warm_up = 40 * point["workers"] + 200
    heads = stationary_heads(system, warm_up + _UPDATES, warm_up, realizations, seed)
    return law_of(heads, point["cells"])


_FOUR = {"workers": 4, "rates": None, "cells": 8}

trial = Trial(
    points=(_FOUR, {"workers": 3, "rates": (1.0, 2.0, 4.0), "cells": 6}),
    more=({"workers": 8, "rates": None, "cells": 16},),
    measure=_measure,
    defects={
        "restart before the own update is written": Defect(restarts_early, _FOUR),
        "a group permit lost": Defect(ticket_lost, _FOUR),
    },
    effect=0.05,
    reach=within(workers=64, cells=200),
    through="kernel",
)
