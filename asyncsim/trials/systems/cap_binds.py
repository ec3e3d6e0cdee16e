"""Mean staleness of AReaL where the admission cap binds, on the event kernel."""

from __future__ import annotations

from typing import Any

from asyncsim import systems
from asyncsim.base import laws
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.trials.systems._heads import mean_over_realizations, stationary_heads, ticket_lost
from asyncsim.trials.systems._kernel_defects import counter_lost, publish_counted_twice, version_off_by_one

_FEW = {"length": "lognormal:1:0.8", "samples_per_group": 4}
"""Settings for `places` that hold fewer groups than there are tickets, fast enough to use all tickets."""
_BATCHES = 400
_SPREAD = 0.01
"""Relative standard deviation of one realization's mean at the points below (measured)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    realizations = max(16, units_for(_SPREAD, effect, 7))
    tickets, groups = point["tickets"], point["publish_groups"]
    if "places" in point:
        length, samples = point["length"], point["samples_per_group"]
        system = systems.areal(1, groups, point["places"], length=length, train_time=point["period"])
    else:
        # AReaL with twice as many places as tickets, so that tickets and nothing else limit generation.
        length, samples = laws.lognormal(1.0, 0.8), 1
        system = systems.areal(1, groups, 2 * tickets, length=length, load=2.0 if tickets > 20 else 0.7)
    system = system.replace(tickets=tickets, release=point["release"])
    if point["zero_train_time"]:
        system = system.replace(train_time=0.0, load=None)
    heads = stationary_heads(plant(system), _BATCHES, 2 * tickets // groups + 20, realizations, seed, samples)
    return {"mean": mean_over_realizations(heads)}


def _point(
    tickets: int, groups: int, release: str = "publish", zero_train_time: bool = False, **few: Any
) -> dict[str, Any]:
    point = {"tickets": tickets, "publish_groups": groups, "release": release, "zero_train_time": zero_train_time}
    return {**point, **_FEW, **few} if few else point


trial = Trial(
    points=(
        _point(8, 4),
        _point(40, 8),
        _point(33, 8),
        _point(12, 4, "dequeue"),
        _point(12, 4, "dequeue", True),
        _point(40, 8, places=16, period=2.5),
    ),
    more=(
        _point(144, 16),
        _point(10, 4),
        _point(160, 32, places=64, period=2.0),
        _point(40, 8, "dequeue", places=6, period=6.0),
    ),
    measure=_measure,
    defects={
        "group permits returned at the dequeue": Defect(replaced(release="dequeue"), _point(40, 8)),
        "a group permit lost": Defect(ticket_lost, _point(40, 8)),
        "the count of group permits lost": Defect(counter_lost, _point(40, 8)),
        "an install not counted": Defect(version_off_by_one, _point(12, 4, "dequeue")),
        "an install counted twice": Defect(publish_counted_twice, _point(40, 8)),
        "a quarter of the generator slots": Defect(
            lambda system: system.replace(rates=system.rates[: len(system.rates) // 4]),
            _point(40, 8, places=16, period=2.5),
        ),
    },
    effect=0.02,
    through="kernel",
)
