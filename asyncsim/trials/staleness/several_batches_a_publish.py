"""Staleness of every update and the path of descent between publishes, on noiseless minibatches through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import off_by_one_version
from asyncsim.trials._runs import descent, run
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, Wrapped
from asyncsim.trials.staleness._paths import ITERATE


def _system(point: Point) -> Any:
    """A sawtooth where data is of the trained version, frozen where it never renews, else a fixed staleness."""
    counts = {"groups_per_batch": 2, "batches_per_publish": point["batches"]}
    if point["versions"] == 0:
        return schedules.sawtooth(point["batches"], groups_per_batch=2)
    if point["versions"] == point["publishes"] - 1:
        return schedules.frozen(**counts)
    return schedules.fixed(point["versions"], **counts)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    cycle = point["batches"] * point["epochs"] * point["minibatches"]
    spec = descent(
        tasks.quadratic((point["curvature"],), noise=0.0, start=1.0),
        _system(point),
        updates.sgd(point["step"]),
        updates=cycle * point["publishes"],
        epochs=point["epochs"],
        minibatches=point["minibatches"],
        cut="samples",
        samples_per_group=point["minibatches"],
        replicates=1,
        diagnostics=[ITERATE, "update_staleness"],
    )
    trace = run(spec, seed, plant)
    ages = trace["update_staleness"][point["versions"] * cycle :, 0]
    path = np.append(trace["iterate"][cycle::cycle, 0], trace.parameters[0, 0])
    found = {"mean_staleness": exactly(float(ages.mean())), "largest_staleness": exactly(float(ages.max()))}
    return found | components("x", path)


class _EveryBatch(Wrapped):
    """A system that publishes after every batch, whatever it was told."""

    batches_per_publish = 1


def _one_pass(spec: Spec) -> Spec:
    """Every batch is gone through once, and as many updates are made."""
    return spec.replace(epochs=1)


def _recut(spec: Spec) -> Spec:
    """Batches are not cut, and as many updates are made."""
    return spec.replace(minibatches=1)


def _point(batches: int, epochs: int, minibatches: int, versions: int, publishes: int = 5) -> dict[str, Any]:
    counts = {"batches": batches, "epochs": epochs, "minibatches": minibatches}
    return {**counts, "versions": versions, "publishes": publishes, "step": 0.02, "curvature": 1.5}


_POINT = _point(2, 3, 2, 1)

trial = Trial(
    points=(_POINT, _point(4, 1, 2, 0), _point(2, 2, 1, 4)),
    more=(_point(1, 4, 4, 2), _point(6, 1, 1, 3, 8)),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "published after every batch": Defect(lambda spec: spec.replace(system=_EveryBatch(spec.system)), _POINT),
        "one epoch": Defect(_one_pass, _POINT),
        "no minibatches": Defect(_recut, _POINT),
    },
    effect=0.02,
    through="loop",
)
