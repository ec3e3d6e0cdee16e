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


def _as_fresh(live: Any) -> Any:
    """The replay without staleness.

    Permits for three batches are out at once, so some groups train stale whatever the clocks do. The mean staleness
    for every sample is no defect: runs whose processes happen to take turns have it exactly."""
    return replace(live, schedule=fixed(0, groups_per_batch=live.spec.system.groups_per_batch))


_POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}

trial = Trial(
    points=(_POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"}),
    measure=_measure,
    defects={"every sample as if it were fresh": Defect(on_runs(_as_fresh), _POINT)},
    effect=0.02,
    reach=few,
    through="live",
)
