"""The baseline that minimizes the gradient's variance, found from exact variances, and OPOB's population value."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import FourthPower
from asyncsim.trials._runs import population
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_ROUNDING = 1e-9


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, cap = point["rewards"], point.get("cap")
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    # Not by the name of truncated weights, which refuses caps below 1.
    method = methods.full_is(advantage=advantages.opob()).replace(weight=Ratio("sequence", cap))
    spec = plant(population(task, method))
    places = (np.array(point["current_logits"]), np.array(point["behavior_logits"]))
    # The variance is a parabola in a constant baseline: three exact values give its vertex.
    low, middle, high = (
        oracle.moments(task, spec.method.replace(advantage=advantages.offset(v)), *places, samples=1).variance
        for v in (-1.0, 0.0, 1.0)
    )
    vertex = 0.5 * (low - high) / (low - 2.0 * middle + high)
    signal = oracle.population_step(task, spec.method, *places)
    baseline = (signal.batch.reward - signal.advantages)[0, 0, 0].item()
    return {"baseline": Estimate(vertex, tolerance=_ROUNDING), "opob": Estimate(baseline, tolerance=_ROUNDING)}


_POINT = {"rewards": (0.2, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}

trial = Trial(
    points=({**_POINT, "cap": None}, {**_POINT, "cap": 1.5}),
    more=({**_POINT, "cap": 1.1},),
    measure=_measure,
    defects={
        "weight to the fourth power": Defect(
            lambda spec: spec.replace(method=spec.method.replace(advantage=FourthPower(spec.method.advantage))),
            {**_POINT, "cap": None},
        )
    },
    effect=0.02,
    through="oracle",
)
