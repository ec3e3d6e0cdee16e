"""REINFORCE with a group baseline on a stale one-context bandit: a run through the loop, and exact mean gradients."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.base.uncertainty import between
from asyncsim.learning import oracle, running
from asyncsim.trials._plants import off_by_one_version, with_method
from asyncsim.trials._runs import MeanGradient, ascent, displaced, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, untouched

_ROUNDING = 1e-10
_BATCHES, _SAMPLED = 1_000_000, 40_000
"""Batches that are listed, at most; and batches that are sampled where there are more."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms = len(point["rewards"])
    task = tasks.softmax_bandit(arms, point["rewards"], rewards="fixed", logits=point["initial_logits"])
    method = methods.reinforce(advantages.leave_one_out())
    spec = plant(ascent(task, schedules.fixed(point["staleness"]), method, point["step"], point["updates"]))
    logits = running.run(spec, seed=seed, progress=False).parameters[0]
    places = (point["current_logits"], point["behavior_logits"])
    cells = {f"logit[{k}]": Estimate(float(x), tolerance=_ROUNDING) for k, x in enumerate(logits)}
    for name, advantage in (("group_mean", advantages.group_mean()), ("none", advantages.none())):
        own = spec.method.replace(advantage=advantage)
        if arms ** point["samples"] > _BATCHES:
            size = point["samples"], 1, _SAMPLED
            sampled = displaced(task, (np.array(places[1]), np.array(places[0])), [MeanGradient()], size, own)
            means = [between(row) for row in run(sampled, seed + 1, untouched).accumulated["gradient"]]
        else:
            exact = oracle.moments(task, own, *places, samples=point["samples"]).mean
            means = [Estimate(float(x), tolerance=_ROUNDING) for x in exact]
        cells |= {f"{name}[{k}]": mean for k, mean in enumerate(means)}
    return cells


_POINT = {
    "rewards": (0.0, 0.5, 1.0),
    "initial_logits": (0.2, 0.0, -0.2),
    "staleness": 4,
    "step": 1.5,
    "updates": 40,
    "behavior_logits": (0.3, -0.2, 0.5),
    "current_logits": (1.5, -0.9, 0.1),
    "samples": 3,
}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "staleness": 9, "samples": 5, "step": 0.7},),
    measure=_measure,
    defects={
        "off-by-one version": Defect(off_by_one_version, _POINT),
        "scores at the behavior version": Defect(with_method(at="behavior"), _POINT),
    },
    effect=0.02,
    through="loop, oracle",
)
