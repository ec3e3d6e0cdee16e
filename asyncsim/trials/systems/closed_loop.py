"""Groups trained a second, one by one, by a closed loop with exponential training, on the event kernel."""

from __future__ import annotations

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems._heads import ticket_lost
from asyncsim.trials.systems._kernel_defects import counter_lost
from asyncsim.trials.systems._windows import groups_per_second, heavy, places, realizations_for

_SPREAD = 0.02
"""Relative standard deviation of one realization's rate at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = places(point, point["places"], 1, tickets=point["tickets"], release="publish")
    # Forty generations of every ticket, then ten times as many.
    warm = max(800, 40 * point["tickets"])
    count = realizations_for(_SPREAD, effect, 0.0, comparisons=4)
    rate = groups_per_second(plant(system), 10 * warm, point["samples_per_group"], warm, count, seed)
    return {"groups_per_second": rate}


def _reach(point: Point) -> str | None:
    return heavy(point, "length") or within(tickets=200, places=1024, samples_per_group=64)(point)


_POINT = {"places": 8, "tickets": 8, "samples_per_group": 4, "length": "exponential:1", "train_time": "exponential:0.3"}
_SPARE = _POINT | {"places": 16, "samples_per_group": 1, "train_time": "exponential:0.15"}

trial = Trial(
    points=(
        _POINT,
        _SPARE | {"length": "lognormal:1.0:1.5"},
        _POINT
        | {"places": 4, "tickets": 4, "samples_per_group": 1}
        | {"length": "constant:1", "train_time": "exponential:0.25"},
    ),
    more=(
        _POINT
        | {"places": 16, "tickets": 16, "samples_per_group": 2}
        | {"length": "gamma:1:0.5", "train_time": "exponential:0.08"},
    ),
    measure=_measure,
    defects={
        "a group permit lost": Defect(ticket_lost, _POINT),
        "group permits that are out handed out again": Defect(counter_lost, _SPARE),
        "group permits returned at the dequeue": Defect(replaced(release="dequeue"), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
