"""Seconds for which permits of a live run were held, from its stamps, against the length of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial
from asyncsim.trials.live._runs import few, on_runs, on_systems, ran

_BATCHES = 60
_SECOND = 0.03
"""Mean seconds of a response: long beside the time between a return and the next admission."""
_GAP = 0.004
"""Share of a permit's time that this takes at most.

Measured: 0.1 percent, also with two processes to a core."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    made = ran(point, _BATCHES, seed, plant, _SECOND)
    returned = made.live.t_install[1:] if point["release"] == "publish" else made.live.t_train
    begin, end = min(row["t_submit"] for row in made.rows), float(returned[-1])
    groups = {row["group_id"]: (row["t_submit"], _return(row, returned, end)) for row in made.rows}
    first, last = np.array(list(groups.values())).T
    trained = int((last <= end).sum())
    held = float(np.clip(np.minimum(last, end) - np.minimum(first, end), 0.0, None).sum())
    # Groups a second times the mean seconds of one.
    value = trained / (end - begin) * (held / trained)
    return {"held": Estimate(value, tolerance=_GAP * point["tickets"], samples=trained)}


def _return(row: dict[str, Any], returned: np.ndarray, end: float) -> float:
    """When the permit of a row's group returned."""
    batch = row.get("batch", len(returned))
    return float(returned[batch]) if batch < len(returned) else end


_POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}
_EARLY = {"tickets": 4, "publish_groups": 2, "release": "dequeue"}

trial = Trial(
    points=(_POINT, _EARLY),
    more=({"tickets": 4, "publish_groups": 1, "release": "publish"},),
    measure=_measure,
    defects={
        "a permit lost": Defect(on_systems(lambda system: system.replace(tickets=5)), _POINT),
        "batches stamped when their training ended": Defect(
            on_runs(lambda live: replace(live, t_train=live.t_trained)), _EARLY
        ),
    },
    effect=0.02,
    reach=few,
    through="live",
)
