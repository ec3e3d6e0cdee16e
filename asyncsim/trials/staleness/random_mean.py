"""Mean of descent under staleness drawn for every update, and the boundary of its recursion, through the loop."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from asyncsim import schedules
from asyncsim.base import records
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped, units_for
from asyncsim.trials.staleness._mixed import step_of
from asyncsim.trials.staleness._paths import drawn, mean_of

_SPREAD = 0.3
"""Largest standard deviation of x_T over its mean at the points below."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    trace = drawn(point, schedules.random(point["law"]), units_for(_SPREAD, effect, 6), seed, plant)
    mean = mean_of(trace.parameters[:, 0], trace.realization)
    return {"step": step_of(point, seed, plant), "mean": mean}


class _DrawnOnce(Wrapped):
    """One staleness for a whole run: that of its last update."""

    def schedule(self, *arguments: Any) -> records.Schedule:
        """The system's schedule with the last batch's staleness throughout."""
        schedule = self._inner.schedule(*arguments)
        now = schedule.train_version[None, :, None, None, None]
        last = (now - schedule.version)[:, -1:]
        return dataclasses.replace(schedule, version=np.maximum(now - last, 0).astype(np.int32))


_UNEVEN = {"law": (0.25, 0.0, 0.25, 0.5), "curvature": 2.0, "share": 0.15, "updates": 5}

trial = Trial(
    points=(_UNEVEN, {**_UNEVEN, "law": (0.25,) * 4}),
    more=({**_UNEVEN, "law": (0.2,) * 5, "share": 0.12}, {**_UNEVEN, "law": (0.5, 0.5)}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _UNEVEN),
        "one draw for the whole run": Defect(
            lambda spec: spec.replace(system=_DrawnOnce(spec.system)), {**_UNEVEN, "share": 0.3, "updates": 6}
        ),
    },
    effect=0.02,
    through="loop",
)
