"""Groups outstanding at every publish of a run without any wait, read off its log."""

from __future__ import annotations

import numpy as np

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.live._runs import few, on_systems, ran

_BATCHES = 60


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    made = ran(point, _BATCHES, seed, plant, None)
    # Each group once, from its admission to its training; those never trained are out until the end.
    groups = {row["group_id"]: (row["submit_version"], row.get("train_version", _BATCHES)) for row in made.rows}
    first, last = np.array(list(groups.values())).T
    versions = np.arange(1, _BATCHES)[:, None]
    levels = ((first < versions) & (versions <= last)).sum(1) / point["publish_groups"]
    numbers = {"mean": levels.mean(), "least": levels.min(), "most": levels.max()}
    return {
        name: Estimate(float(value), tolerance=1e-12 * float(value), samples=len(levels))
        for name, value in numbers.items()
    }


_POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}

trial = Trial(
    points=(_POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"}),
    more=({"tickets": 4, "publish_groups": 1, "release": "publish"},),
    measure=_measure,
    defects={
        "a permit lost": Defect(on_systems(lambda system: system.replace(tickets=5)), _POINT),
        "permits returned at the dequeue": Defect(on_systems(lambda system: system.replace(release="dequeue")), _POINT),
    },
    effect=0.02,
    reach=few,
    through="live",
)
