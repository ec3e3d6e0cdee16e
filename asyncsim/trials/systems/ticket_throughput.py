"""Groups trained a second under tickets against the scarcest resource, on the event kernel."""

from __future__ import annotations

from functools import partial

from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, within
from asyncsim.trials.systems._kernel_defects import counter_lost, place_freed_twice
from asyncsim.trials.systems._windows import groups_per_second, heavy, places, publishes_for, realizations_for

_SPREAD = 0.015
"""Relative standard deviation of one realization's rate at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    groups, batches = point["groups_per_batch"], point["batches_per_publish"]
    system = places(
        point,
        point["places"],
        groups,
        batches_per_publish=batches,
        tickets=point["tickets"],
        release=point["release"],
        sync_time=float(point["sync_time"]),
        generator_pauses=point["generator_pauses"],
    )
    publishes = publishes_for(max(point["places"], point["tickets"]), batches * groups)
    count = realizations_for(_SPREAD, effect, 0.0, comparisons=12, kind="bound")
    rate = groups_per_second(
        plant(system), publishes * batches, point["samples_per_group"], publishes // 10, count, seed
    )
    return {"groups_per_second": rate}


def _reach(point: Point) -> str | None:
    limits = within(places=1024, tickets=4096, groups_per_batch=1024, samples_per_group=64)(point)
    return heavy(point, "length", "train_time") or limits


_POINT = {
    "places": 64,
    "samples_per_group": 4,
    "groups_per_batch": 16,
    "batches_per_publish": 1,
    "tickets": 64,
    "release": "publish",
    "length": "lognormal:1.0:0.8",
    "train_time": 1.0,
    "sync_time": 0.0,
    "generator_pauses": False,
}
_TRAINER = _POINT | {"sync_time": 0.5}
_FEW_PLACES = _POINT | {"places": 32, "groups_per_batch": 8, "tickets": 96, "train_time": 0.15}
_SINGLE = _POINT | {"places": 64, "tickets": 16, "groups_per_batch": 1, "samples_per_group": 2, "train_time": 0.01}
_PAUSED = _SINGLE | {"length": "exponential:1", "sync_time": 0.05, "generator_pauses": True}
_EARLY = _SINGLE | {"length": "exponential:1", "release": "dequeue"}
_ONE_TICKET = _SINGLE | {"places": 4, "tickets": 1, "length": "constant:1", "train_time": 0.6, "sync_time": 0.4}
"""One group after the other: generation, training and synchronization are all that the ticket is held for."""
_TWO_BATCHES = _SINGLE | {
    "places": 2, "tickets": 2, "batches_per_publish": 2, "samples_per_group": 1, "length": "empirical:1:2",
    "train_time": 1.0,
}  # fmt: skip
"""Half of the groups end as the one before leaves the trainer: 0.92 of the bound, the most that was found."""
_IN_STEP = _POINT | {"places": 8, "tickets": 8, "groups_per_batch": 8, "samples_per_group": 1, "train_time": 0.9}
_FEW_TICKETS = _POINT | {"groups_per_batch": 8, "tickets": 16, "train_time": 0.3}

trial = Trial(
    points=(
        _TRAINER,
        _FEW_PLACES,
        _PAUSED,
        _EARLY,
        _ONE_TICKET,
        _ONE_TICKET | {"generator_pauses": True},
        _TWO_BATCHES,
        # Tickets are back before the training that they would wait for elsewhere.
        _IN_STEP | {"length": "constant:1", "release": "dequeue"},
    ),
    more=(
        _POINT,
        _FEW_TICKETS,
        _POINT | {"batches_per_publish": 2, "sync_time": 0.2},
        _FEW_PLACES | {"sync_time": 0.2, "generator_pauses": True},
    ),
    measure=_measure,
    defects={
        "group permits that are out handed out again": Defect(counter_lost, _PAUSED),
        "eight generator slots freed twice": Defect(partial(place_freed_twice, times=8), _FEW_PLACES),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
    loose=frozenset({"group permits behind other batches"}),
)
