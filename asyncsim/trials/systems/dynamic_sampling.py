"""Rounds until enough groups pass a filter, and how many of those that pass are kept, on the event kernel."""

from __future__ import annotations

import numpy as np

from asyncsim.base import laws
from asyncsim.base.records import Timeline
from asyncsim.systems._system import System
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows
from asyncsim.trials.systems._kernel_defects import dropped_counted_as_trained

_BATCHES = 1000
_SPREAD = 0.013
"""Largest relative standard deviation of one realization's numbers at the points below (measured, rounded up)."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = System(
        "rounds",
        {},
        laws.lognormal(1.0, 0.8),
        (1.0,) * point["round"],
        groups_per_batch=point["groups_per_batch"],
        quantum=point["round"],
        accept=float(point["accept"]),
        rounds=True,
        train_time=0.5,
    )
    count = _windows.realizations_for(_SPREAD, effect, 0.0, comparisons=6)
    records = _windows.timelines(plant(system), _BATCHES, 1, count, seed)
    generated, kept = np.array([_summarize(record) for record in records]).T
    rounds = generated * point["groups_per_batch"] / point["round"]
    return {
        "rounds": _windows.mean_of(rounds),
        "generated": _windows.mean_of(generated),
        "kept": _windows.mean_of(kept),
    }


def _summarize(record: Timeline) -> tuple[float, float]:
    """Groups generated for each one that a batch takes, and the share of the accepted that batches take."""
    fate, taken = record.groups["fate"], len(record.uses["group"])
    accepted = ((fate == "trained") | (fate == "dropped_overflow")).sum()
    return len(fate) / taken, float((fate == "trained").sum() / accepted)


def _reach(point: Point) -> str | None:
    if point["accept"] < 0.1:
        return "an acceptance of at least 0.1; accept more, so that groups are few enough to be generated"
    return within(groups_per_batch=64, round=128)(point)


_POINT = {"groups_per_batch": 16, "round": 24, "accept": 0.6}

trial = Trial(
    points=(_POINT, {"groups_per_batch": 8, "round": 4, "accept": 0.8}),
    more=({"groups_per_batch": 4, "round": 1, "accept": 0.5},),
    measure=_measure,
    defects={
        "a rejected group trained": Defect(replaced(accept=1.0), _POINT),
        "groups replaced one by one": Defect(replaced(quantum=1), _POINT),
        "surplus counted as trained": Defect(dropped_counted_as_trained, _POINT),
        "no rounds: what passes late is kept": Defect(
            lambda system: system.replace(rounds=False, tickets=len(system.rates) + system.quantum), _POINT
        ),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
