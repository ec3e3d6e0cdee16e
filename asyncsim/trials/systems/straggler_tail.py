"""How stale stragglers are where the oldest go first and the trainer never waits, on the event kernel."""

from __future__ import annotations

import numpy as np

from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems._heads import mean_over_realizations
from asyncsim.trials.systems._kernel_defects import version_off_by_one
from asyncsim.trials.systems._windows import places, realizations_for, timelines, trains_longer

_GROUPS = 6000
"""Groups of one realization whose fate is followed."""
_SPREAD = 0.06
"""Largest standard deviation of one realization's tail at the points below, by the norm of all (measured)."""
_FINITE = 0.005
"""How far batches of the fewest groups within reach are from infinitely many, by the norm (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    tickets, batch, levels = point["tickets"], point["groups_per_batch"], point["levels"]
    realizations = realizations_for(_SPREAD, effect, _FINITE, 16)
    settings = {"release": point["release"], "order": "oldest_start", "train_time": point["period"]}
    system = plant(places(point, tickets, batch, tickets=tickets, **settings))
    warm_up = 4 * -(-tickets // batch) + 40
    versions = _GROUPS // batch
    last = warm_up + versions + max(levels) + 1
    rows = []
    for record in timelines(system, last, point["samples_per_group"], realizations, seed):
        groups = record.groups
        inside = (groups["v_start"] >= warm_up) & (groups["v_start"] < warm_up + versions)
        # A group that has not been trained by the end of the record is older than every level.
        training_version = np.where(groups["v_train"] >= 0, groups["v_train"], last)[inside]
        staleness = training_version - groups["v_start"][inside]
        rows.append([np.mean(staleness >= k) for k in levels])
    tails = [mean_over_realizations(column) for column in np.array(rows).T]
    norm = float(np.hypot.reduce([t.value for t in tails]))
    return {f"tail[{k}]": t._replace(tolerance=_FINITE * norm) for k, t in zip(levels, tails, strict=True)}


def _point(
    tickets: int, batch: int, length: str, levels: tuple[int, ...], release: str = "publish", samples: int = 1
) -> Point:
    return {
        "tickets": tickets,
        "groups_per_batch": batch,
        "release": release,
        "samples_per_group": samples,
        "length": length,
        "period": 1.0,
        "levels": levels,
    }


_PARETO = _point(128, 32, "pareto:0.5:1.5", (4, 5, 6, 8))


def _reach(point: Point) -> str | None:
    law, samples = laws.as_law("length", point["length"]), point["samples_per_group"]
    tail = float(law.survival((min(point["levels"]) - 1) * point["period"]))
    rare = "levels that two of a hundred groups reach; lower them"
    return within(tickets=1024)(point) or (None if 1.0 - (1.0 - tail) ** samples >= 0.02 else rare)


trial = Trial(
    points=(_PARETO, _point(96, 32, "lognormal:0.7:0.8", (4, 5, 6), "dequeue", 4)),
    more=(_point(64, 16, "exponential:1.0", (4, 5, 6)),),
    measure=_measure,
    defects={
        "stragglers wait their turn": Defect(replaced(order="done"), _PARETO),
        "an install not counted": Defect(version_off_by_one, _PARETO),
        "a longer period": Defect(trains_longer(1.1), _PARETO),
    },
    effect=0.05,
    reach=_reach,
    through="kernel",
)
