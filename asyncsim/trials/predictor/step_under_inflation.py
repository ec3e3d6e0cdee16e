"""Best single steps and noise floors at two batch sizes, under plain descent and Adam, through the loop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from asyncsim import schedules, tasks, updates
from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate, Point
from asyncsim.learning.spec import Spec
from asyncsim.trials._runs import descent, run
from asyncsim.trials._trial import Defect, Plant, Trial, units_for
from asyncsim.updates._link import Chain, Link

_COORDINATES, _LENGTH, _SETTLED, _WIDER = 64, 200, 80, 4.0
_SPREAD = 0.1
"""Relative standard deviation of one replicate's exponent of Adam's floor (measured: 0.083 at the first point). That of
24 replicates' best step is as large; that of descent's floor 0.028, for which a sixth of the replicates is enough."""
_SLOWEST, _LONGEST = 0.07, 40
"""Share of the distance that an update of a floor takes in a run that settles, and how many times longer one may be."""


def _adam(step: float) -> Link:
    return updates.adam(step, beta1=0.0)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = units_for(_SPREAD, effect, 3 * len(trial.points))
    return {
        "one_step": _one_step(point, 28 * replicates, seed, plant),
        "floor_sgd": _floor(point, updates.sgd, max(24, replicates // 6), seed + 1, plant),
        "floor_adam": _floor(point, _adam, replicates, seed + 11, plant),
    }


def _sizes(point: Point) -> tuple[int, int]:
    """Samples of whole batches and of shrunken ones."""
    return point["samples"] * point["fewer"], point["samples"]


def _one_step(point: Point, replicates: int, seed: int, plant: Plant) -> Estimate:
    """Slope of the best step over the batch, from losses behind one update of 0, 1/4 and 1/2, with the same draws."""
    logs, errors = [], 0.0
    for k, samples in enumerate(_sizes(point)):
        spec = descent(
            tasks.quadratic((1.0,) * 16, noise=point["noise"], start=point["signal"]),
            schedules.fixed(0),
            samples_per_group=samples,
            updates=2,
            replicates=replicates,
            diagnostics=["exact_return"],
        )
        losses = [
            -run(spec.replace(update=Chain((updates.sgd(step),))), seed + k, plant)["exact_return"][1]
            for step in (0.0, 0.25, 0.5)
        ]
        # The loss is a parabola in the step: its vertex is -slope/(2 bend).
        bend = (losses[2] - 2.0 * losses[1] + losses[0]) / 0.125
        slope = (4.0 * losses[1] - losses[2] - 3.0 * losses[0]) / 0.5
        best = uncertainty.ratio(-slope, 2.0 * bend)
        logs.append(math.log(best.value))
        errors = math.hypot(errors, best.error / best.value)
    scale = math.log(point["fewer"])
    return Estimate((logs[0] - logs[1]) / scale, errors / scale, replicates - 1.0, samples=replicates)


def _floor(point: Point, link: object, replicates: int, seed: int, plant: Plant) -> Estimate:
    """beta/alpha, from floors at a step, at a wider one, and at a smaller batch."""
    (whole, small), step, longer = _sizes(point), point["step"], math.ceil(_longer(point))
    settings = ((whole, step), (whole, _WIDER * step), (small, step))
    logs, errors = [], []
    for k, (samples, rate) in enumerate(settings):
        spec = descent(
            tasks.quadratic((1.0,) * _COORDINATES, noise=point["noise"]),
            schedules.fixed(0),
            link(rate),  # type: ignore[operator]
            samples_per_group=samples,
            updates=_LENGTH * longer,
            replicates=max(24, replicates // longer),
            diagnostics=["exact_return"],
        )
        floor = uncertainty.between(-run(spec, seed + k, plant)["exact_return"][_SETTLED * longer :].mean(axis=0))
        logs.append(math.log(floor.value))
        errors.append(floor.error / floor.value)
    beta, alpha = (logs[2] - logs[0]) / math.log(point["fewer"]), (logs[1] - logs[0]) / math.log(_WIDER)
    over_rho, over_step = 1.0 / (beta * math.log(point["fewer"])), 1.0 / (alpha * math.log(_WIDER))
    shares = np.array([over_step - over_rho, -over_step, over_rho]) * np.array(errors)
    value = beta / alpha
    return Estimate(value, value * float(np.linalg.norm(shares)), replicates - 1.0, 0.002 * value, replicates)


def _gradient_scaled(spec: Spec) -> Spec:
    """Gradients divided by their noise before the chain: descent becomes as Adam, and Adam does not notice."""
    task: Any = spec.task
    noise = task.noise / math.sqrt(spec.samples_per_group)
    return spec.replace(update=Chain((updates.scale(1.0 / noise), *spec.update.links)))


def _longer(point: Point) -> float:
    """How many times as long as those at the point below runs must be."""
    share = point["step"] * min(1.0, math.sqrt(point["samples"]) / point["noise"])
    return max(1.0, _SLOWEST / share)


def _reach(point: Point) -> str | None:
    slow = f"runs at most {_LONGEST} times as long as its own, not {_longer(point):.3g}; take a larger step"
    return slow if _longer(point) > _LONGEST else None


_POINT = {"noise": 2.0, "samples": 1, "fewer": 4, "signal": 1.0, "step": 0.2}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "samples": 2, "noise": 3.0, "signal": 2.0},),
    measure=_measure,
    defects={"gradient scaled in place of the step": Defect(_gradient_scaled, _POINT)},
    effect=0.05,
    reach=_reach,
    through="loop",
)
