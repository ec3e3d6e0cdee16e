"""Summary and versions of every token of a pipeline in which nothing is random, on the event kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.systems._system import System
from asyncsim.trials._plants import OffByOne
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows

_EDGE = 0.001
"""What the ends of a window of so many batches may make."""
_BATCHES, _WARM = 6_000, 120


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    names = ("batches_per_publish", "train_time", "sync_time")
    settings = {name: point[name] for name in names} | {"mode": "keep", "generator_pauses": False}
    work = {"length": f"constant:{point['seconds']!r}"}
    system: System = plant(_windows.staggered(_windows.places(work, point["places"], 1, **settings), 1))
    # Whole cycles of publishes behind the warm-up, so that every phase counts alike.
    cycle = point["places"] * point["batches_per_publish"]
    batches, warm = (count // cycle * cycle for count in (_BATCHES, _WARM))
    found = system.summary(batches, 1, seed, warm=warm)
    schedule = system.schedule(3 * warm, 1, point["tokens"], 1, seed)
    ages = schedule.staleness()[0, warm : warm + warm // cycle * cycle, 0, 0].mean(axis=0)
    values = {
        "throughput": found["throughput"],
        "trainer": found["trainer_utilization"],
        "generator": found["group_slots"]["busy"],
        "outstanding": found["outstanding"],
        "head": found["staleness"]["mean"],
        "deviation": 1.0 + found["staleness"]["std"],
        "in_flight": found["in_flight"],
        "in_queue": 1.0 + found["in_queue"],
        "newest": 1.0 + found["newest"],
        "tokens": found["token_staleness"],
    }
    values |= {f"token[{k}]": x for k, x in enumerate(np.broadcast_to(ages, point["tokens"]))}
    return {name: Estimate(float(x), tolerance=_EDGE * max(float(x), 0.01)) for name, x in values.items()}


def _reach(point: Point) -> str | None:
    return within(places=64, batches_per_publish=8)(point) or (
        "places * batches_per_publish of at most 120; lower either, so that the warm-up holds a cycle"
        if point["places"] * point["batches_per_publish"] > _WARM
        else None
    )


def _point(places: int, batches: int, **changes: Any) -> dict[str, Any]:
    times = {"seconds": 1.8, "train_time": 0.31, "sync_time": 0.1, "tokens": 4}
    return {"places": places, "batches_per_publish": batches, **times, **changes}


_POINT = _point(3, 2)

trial = Trial(
    points=(_POINT, _point(4, 1, sync_time=0.0)),
    more=(_point(5, 3, train_time=0.2), _point(1, 2, tokens=7)),
    measure=_measure,
    defects={
        "stamped one version earlier": Defect(OffByOne, _POINT),
        "a place more": Defect(lambda system: system.replace(rates=(*system.rates, 1.0), offsets=None), _POINT),
        "installs at once": Defect(replaced(sync_time=0.0), _POINT),
        "published after every batch": Defect(replaced(batches_per_publish=1), _POINT),
        "old weights to the end": Defect(replaced(mode="pin"), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
