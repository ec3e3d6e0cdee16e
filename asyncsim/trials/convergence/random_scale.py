"""Moments of noiseless descent under scales drawn for every update, over many replicates, through the loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base.uncertainty import between
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.updates._link import Chain

_PLACE = Metric("place", lambda step: step.parameters[:, 0])


def _spread(point: Point) -> float:
    """Relative standard deviation of the last square, rounded up: twice that of a product of factors."""
    a = point["step"] * point["curvature"]
    one = a * point["spread"] / (1.0 - a * point["mean"])
    return 2.5 * math.sqrt(point["updates"] / 3.0) * one + 0.01


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    count = point["updates"]
    spec = descent(
        tasks.quadratic((point["curvature"],), noise=0.0, start=1.0),
        schedules.fixed(0),
        updates.sgd(point["step"]),
        updates.random_scale(point["mean"], point["spread"], seed=seed),
        updates=count,
        sampling="enumerate",
        replicates=max(64, units_for(_spread(point), effect, 2 * count)),
        diagnostics=[_PLACE],
    )
    trace = run(spec, seed, plant)
    places = [*trace["place"][1:], trace.parameters[:, 0]]
    squares = {f"square[{k}]": between(np.asarray(x) ** 2) for k, x in enumerate(places)}
    return {f"x[{k}]": between(np.asarray(x)) for k, x in enumerate(places)} | squares


def _scaled(**settings: Any) -> Plant:
    """A plant: other scales."""

    def plant(spec: Spec) -> Spec:
        link: Any = spec.update.links[-1]
        given = {"mean": link.mean, "spread": link.spread, **settings}
        return spec.replace(update=Chain((*spec.update.links[:-1], updates.random_scale(**given, seed=link.seed))))

    return plant


_POINT = {"mean": 0.7, "spread": 0.2, "step": 0.3, "curvature": 1.0, "updates": 4}
_WIDE = {**_POINT, "spread": 0.6, "step": 0.3}

trial = Trial(
    points=(_POINT, _WIDE),
    more=({**_POINT, "mean": 0.4, "updates": 8},),
    measure=_measure,
    defects={
        "the mean scale alone": Defect(lambda spec: spec.replace(update=Chain(_fixed(spec))), _WIDE),
        "wider scales": Defect(_scaled(spread=0.7), _WIDE),
        "unscaled": Defect(_scaled(mean=1.0), _POINT),
    },
    effect=0.02,
    through="loop",
)


def _fixed(spec: Spec) -> tuple[Any, ...]:
    link: Any = spec.update.links[-1]
    return (*spec.update.links[:-1], updates.scale(link.mean))
