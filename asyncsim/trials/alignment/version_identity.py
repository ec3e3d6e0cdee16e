"""Products of gradients with the moves from and to the weights that they were read at, through the loop."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.learning.step import Step
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, units_for
from asyncsim.updates._link import Link

_UPDATES, _LONGEST = 300, 3000
_COPIES = 24
"""Equal coordinates of each curvature under one realization of delays."""
_SPREAD = {"sgd": 0.075, "momentum": 0.055, "sign": 0.055}
"""Largest relative standard deviation of one replicate's product at the points below (measured)."""


@dataclass
class Stamped:
    """Mean products of gradients with moves by version stamp, and of moves with themselves, weighted by curvature.

    Its result, `[R]` each: "after" the version, "before" it, "energy". `kept` iterates reach back to the oldest stamp.
    """

    curvatures: tuple[float, ...]
    kept: int
    after: int
    path: list[np.ndarray] = field(default_factory=list, repr=False)
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    name = "stamped"
    outputs = ()

    def fresh(self) -> Stamped:
        """An empty copy."""
        return dataclasses.replace(self, path=[], sums={})

    def observe(self, step: Step) -> None:
        """Add this update's products."""
        self.path = [*self.path[-self.kept :], step.parameters.double().numpy().copy()]
        if step.update < self.after:
            return
        late = step.batch.train_version - step.batch.version[:, 0, 0, 0]
        path, rows = np.array(self.path), np.arange(len(step.parameters))
        at = len(path) - 1 - np.broadcast_to(late, rows.shape)
        gradient, here = step.gradient.double().numpy(), path[at, rows]
        moves = {"after": path[np.minimum(at + 1, len(path) - 1), rows] - here, "before": here - path[at - 1, rows]}
        last = path[-1] - path[-2]
        products = {name: (gradient * move).sum(-1) for name, move in moves.items()}
        products["energy"] = (last**2 * np.array(self.curvatures)).sum(-1)
        for name, product in products.items():
            self.sums[name] = self.sums.get(name, 0.0) + product

    def result(self) -> dict[str, np.ndarray]:
        """Sums by name."""
        return self.sums


def _links(point: Point) -> tuple[Link, ...]:
    return {
        "sgd": (updates.sgd(point["step"]),),
        "momentum": (updates.momentum(0.5), updates.sgd(point["step"])),
        "sign": (updates.adam(point["step"], 0.0, 0.0, 0.0),),
    }[point["optimizer"]]


def _warm_up(point: Point) -> int:
    """Ten relaxation times of the slowest mode, or more."""
    relaxing = point["step"] * min(point["curvatures"]) / (point["noise"] if point["optimizer"] == "sign" else 1.0)
    return max(30 * len(point["law"]), math.ceil(10.0 / relaxing))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    curvatures, after = point["curvatures"] * _COPIES, _warm_up(point)
    spec = descent(
        tasks.quadratic(curvatures, noise=point["noise"]),
        schedules.random(point["law"]),
        *_links(point),
        updates=_UPDATES + after,
        replicates=units_for(_SPREAD[point["optimizer"]], effect, 8),
        diagnostics=[Stamped(curvatures, len(point["law"]) + 2, after)],
    )
    trace = run(spec, seed, plant)
    sums = trace.accumulated
    return {
        name: uncertainty.ratio(sums[name], sums["energy"], trace.realization, random=True)
        for name in ("after", "before")
    }


def _reach(point: Point) -> str | None:
    updates = _warm_up(point)
    return (
        None if updates <= _LONGEST else f"a warm-up of at most {_LONGEST} updates, not {updates}; take a larger step"
    )


_SGD = {"optimizer": "sgd", "law": (0.0, 0.7, 0.0, 0.3), "curvatures": (1.0, 0.5), "noise": 1.0, "step": 0.45}
_SIGN = {**_SGD, "optimizer": "sign", "law": (0.0, 0.7, 0.3), "step": 1.0}

trial = Trial(
    points=(_SGD, {**_SGD, "optimizer": "momentum", "law": (0.0, 0.6, 0.4), "step": 0.3}, _SIGN),
    more=({**_SGD, "law": (0.0, *(0.25,) * 4), "step": 0.35},),
    measure=_measure,
    defects={
        "gradient at the current weights": Defect(with_method(at="current"), _SGD),
        "batch used twice": Defect(replaced(epochs=2), _SGD),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
