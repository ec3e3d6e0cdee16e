"""Noise of descent behind every minibatch of one batch, over many coordinates and replicates, through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import diagnostics, schedules, tasks, updates
from asyncsim.base.uncertainty import between
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for

_COORDINATES = 8
_SPREAD = 0.6
"""Standard deviation of what one replicate measures, relative to the norm of its kind (found at the points below)."""


def _squares(step: Any) -> Any:
    return (step.parameters**2).mean(-1)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    parts = point["minibatches"]
    count = point["epochs"] * parts
    spec = descent(
        tasks.quadratic((1.0,) * _COORDINATES, noise=point["noise"]),
        schedules.fixed(0, groups_per_batch=point["groups"]),
        updates.sgd(point["step"]),
        samples_per_group=point["samples"],
        updates=count,
        epochs=point["epochs"],
        minibatches=parts,
        cut=point["cut"],
        replicates=units_for(_SPREAD, effect, count + parts + 1),
        diagnostics=[Metric("squares", _squares), diagnostics.autocorrelogram(parts)],
    )
    trace = run(spec, seed, plant)
    # The start is 0, and so is the mean gradient of the only batch.
    squares = [*trace["squares"][1:], (trace.parameters**2).mean(-1)]
    found = {f"variance[{k}]": between(np.asarray(x)) for k, x in enumerate(squares)}
    products = point["step"] ** 2 * trace.accumulated["autocorrelogram"] / _COORDINATES
    return found | {f"covariance[{k}]": between(x) for k, x in enumerate(products)}


def _point(minibatches: int, cut: str, **changes: Any) -> dict[str, Any]:
    sizes = {"groups": 2, "samples": 2, "epochs": 2, "minibatches": minibatches, "cut": cut}
    return {**sizes, "noise": 1.5, "step": 0.1, **changes}


_POINT = _point(2, "samples")

trial = Trial(
    points=(_POINT,),
    more=(_point(2, "groups"), _point(2, "parts")),
    measure=_measure,
    defects={
        "no minibatches": Defect(replaced(minibatches=1), _POINT),
        "one epoch": Defect(replaced(epochs=1), _POINT),
        "half the groups": Defect(replaced(system=schedules.fixed(0, groups_per_batch=1)), _POINT),
    },
    effect=0.02,
    through="loop",
)
