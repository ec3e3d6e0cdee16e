"""Total delay of applied and unapplied gradients of asynchronous workers, counted on the event kernel's record."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.trials.systems._heads import LateStamp


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = plant(systems.update_on_arrival(point["workers"], laws.as_law("law", point["law"])))
    updates = point["updates"]
    samples = system.timeline(updates, seed=seed).samples
    applied = samples["batch"] >= 0
    delays = int((samples["batch"][applied] - samples["v_start"][applied]).sum())
    # The worker of the last update has restarted at the newest version: its age is 0.
    ages = int((updates - samples["v_start"][~applied]).sum())
    return {"total_per_update": Estimate((delays + ages) / updates, tolerance=1e-12 * point["workers"])}


class _Censored(Wrapped):
    """Ages of gradients in flight are not counted."""

    def timeline(self, *arguments: Any, **options: Any) -> Any:
        """The system's timeline whose unfinished samples look as if they had just begun."""
        record = self._inner.timeline(*arguments, **options)
        newest = record.publishes["version"].max()
        record.samples["v_start"] = np.where(record.samples["batch"] < 0, newest, record.samples["v_start"])
        return record


_POINT = {"workers": 16, "law": "pareto:1.0:1.2", "updates": 400}

trial = Trial(
    points=(_POINT, {**_POINT, "law": "exponential:1.0"}, {**_POINT, "law": "lognormal:1.0:2.0"}),
    more=({**_POINT, "workers": 64, "updates": 60_000},),
    measure=_measure,
    defects={
        "stamp taken at completion": Defect(LateStamp, _POINT),
        "staleness in flight forgotten": Defect(_Censored, _POINT),
    },
    effect=0.02,
    through="kernel",
)
