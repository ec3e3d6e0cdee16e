"""Parameters of a live run beside those of `sim.run` on its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from asyncsim.learning.running import run as simulated
from asyncsim.schedules.fixed import fixed
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.live._runs import few, on_runs, ran

_BATCHES = 40


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    live = ran(point, _BATCHES, seed, plant, None).live
    again = simulated(replace(live.spec, system=live.schedule), seed=live.seed, progress=False)
    same = live.trace.parameters == again.parameters
    return {"same": Estimate(float(same.mean()), samples=same.size)}


def _guessed(live: Any) -> Any:
    """The replay of another schedule: the mean staleness for every sample, as if clocks did not matter."""
    system = live.spec.system
    mean = round(float(live.staleness[10:].mean()))
    return replace(live, schedule=fixed(mean, groups_per_batch=system.groups_per_batch))


_POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}

trial = Trial(
    points=(_POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"}),
    measure=_measure,
    defects={"the mean staleness for every sample": Defect(on_runs(_guessed), _POINT)},
    effect=0.02,
    reach=few,
    through="live",
    elsewhere=({"tickets": 12},),
    refused=({"tickets": 40},),
)
