"""Largest staleness of any group under orders and syncs that bound it, on the event kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems._kernel_defects import counter_lost, version_off_by_one
from asyncsim.trials.systems._windows import places

_BATCHES = 400
_REALIZATIONS = 8
"""Stragglers of a heavy tail reach every bound at the points below in the first of them (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rule, _, number = point["rule"].partition(":")
    tickets, batch, batches = point["tickets"], point["groups_per_batch"], point["batches_per_publish"]
    options: dict[str, Any] = {"order": "oldest_start"}
    if rule == "window":
        options["window"] = int(number)
    elif rule == "wait":
        options |= {"max_age": int(number), "age_action": "wait"}
    elif rule == "drain":
        options = {"mode": "drain"}
    else:
        options = {"order": rule}
    options |= {"batches_per_publish": batches, "sync_time": point["sync_time"]}
    system = places(point, tickets, batch, tickets=tickets, **options)
    # The groups of the start share a version; under wait they leave within twice the age.
    versions = int(number or 0) + 2 * (tickets // (batch * batches) + 2)
    warm_up = 2 * batches * versions
    staleness = plant(system).staleness(warm_up + _BATCHES * batches, _REALIZATIONS, seed)[:, warm_up:]
    largest = float(np.max(staleness))
    return {"largest": Estimate(largest), "spread": Estimate(largest - float(np.min(staleness)))}


def _point(rule: str, tickets: int, batch: int = 4, batches: int = 1, sync_time: float = 0.0) -> Point:
    return {
        "rule": rule,
        "tickets": tickets,
        "groups_per_batch": batch,
        "batches_per_publish": batches,
        "length": "pareto:0.5:1.5",
        "train_time": 1.0,
        "sync_time": sync_time,
    }


trial = Trial(
    points=(
        _point("window:1", 10),
        _point("window:5", 12),
        _point("window:2", 12),
        _point("wait:2", 12),
        _point("drain", 10),
        _point("version_strict", 10),
        _point("target", 10),
        _point("window:5", 12, 2, 2),
        _point("wait:3", 12, 2, 2, 0.4),
        _point("drain", 10, 2, 2, 0.4),
        _point("version_strict", 10, 4, 1, 0.4),
    ),
    more=(
        _point("window:1", 12),
        _point("target", 12),
        _point("drain", 6),
        _point("window:9", 8),
        _point("wait:4", 12),
    ),
    measure=_measure,
    defects={
        "an install not counted": Defect(version_off_by_one, _point("version_strict", 10)),
        "the count of group permits lost": Defect(counter_lost, _point("drain", 10)),
        "the drain forgotten": Defect(replaced(mode="keep"), _point("drain", 10)),
        "waiting a version late": Defect(
            lambda system: system.replace(max_age=system.max_age + 1), _point("wait:2", 12)
        ),
        "a window too wide": Defect(lambda system: system.replace(window=system.window + 1), _point("window:1", 12)),
    },
    effect=0.05,
    reach=within(tickets=256),
    through="kernel",
)
