"""Mean square of descent under staleness drawn for every gradient, and its boundary, through the loop."""

from __future__ import annotations

import itertools
import math

import numpy as np

from asyncsim import schedules
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.staleness._paths import drawn, listed, mean_of, moment_boundary

_SPREAD = 1.0
"""Largest standard deviation of x_T^2 over its mean at the points below."""
_PATHS = 4000


def _sets(point: Point) -> dict[tuple[int, ...], float]:
    """Stalenesses of a batch's groups in any order, with their chances."""
    chances: dict[tuple[int, ...], float] = {}
    for each in itertools.product(np.flatnonzero(point["law"]).tolist(), repeat=point["groups"]):
        key = tuple(sorted(each))
        chances[key] = chances.get(key, 0.0) + math.prod(point["law"][d] for d in each)
    return chances


def _length(point: Point) -> int:
    """Values of E x_t^2 that determine its recurrence, over products of as many iterates as the law has values."""
    size = len(point["law"])
    return size * (size + 1)


def _boundary(point: Point, seed: int, plant: Plant) -> Estimate:
    sets, count = _sets(point), _length(point)
    # What the last update does is not seen.
    paths = listed(list(sets), count - 1)
    chance = listed(list(sets.values()), count - 1).prod(axis=1)
    staleness = np.concatenate([paths, paths[:, :1]], axis=1)
    version = np.maximum(np.arange(count)[None, :, None] - staleness, 0)
    scale = 1.0 / point["curvature"]
    bracket = (0.4 * scale / len(point["law"]), 4.5 * scale)
    return moment_boundary(version, chance, point["curvature"], bracket, seed, plant)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = schedules.random(point["law"], "group", groups_per_batch=point["groups"])
    trace = drawn(point, system, units_for(_SPREAD, effect, 6), seed, plant)
    second = mean_of(trace.parameters[:, 0] ** 2, trace.realization)
    return {"step": _boundary(point, seed, plant), "second_moment": second}


def _one_draw(spec: Spec) -> Spec:
    """All groups of a batch share one draw."""
    knobs = spec.system.knobs
    law = schedules.random(knobs["law"], groups_per_batch=spec.groups) if "law" in knobs else spec.system
    return spec.replace(system=law)


def _reach(point: Point) -> str | None:
    if len(_sets(point)) ** (_length(point) - 1) > _PATHS:
        return f"at most {_PATHS} sequences of draws; take laws of fewer values, or fewer groups"
    return None


_TWO = {"law": (0.5, 0.5), "groups": 2, "curvature": 2.0, "share": 0.25, "updates": 3}
_ONE = {**_TWO, "law": (0.25, 0.75), "groups": 1}

trial = Trial(
    points=(_ONE, _TWO),
    more=({**_TWO, "groups": 3}, {**_ONE, "law": (0.6, 0.0, 0.4)}),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _ONE),
        "one draw shared by the batch": Defect(_one_draw, {**_TWO, "share": 1.0}),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
