"""Where REINFORCE with a pessimistic fixed baseline ends on frozen data, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced

_UPDATES = 800
_STEP = 3.0
_TOLERANCE = 1e-6


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms = len(point["rewards"])
    task = tasks.softmax_bandit(arms, point["rewards"], rewards="fixed", logits=point["behavior_logits"])
    method = methods.reinforce(advantages.offset(point["offset"]))
    logits = run(ascent(task, schedules.frozen(), method, _STEP, _UPDATES), seed, plant).parameters[0]
    weights = np.exp(logits - logits.max())
    return {f"pi[{k}]": Estimate(float(p), tolerance=_TOLERANCE) for k, p in enumerate(weights / weights.sum())}


_POINT = {"behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0), "rewards": (0.0, 0.3, 0.9, 1.0, 0.5), "offset": 0.2}

trial = Trial(
    points=(_POINT, {**_POINT, "offset": 0.35}),
    more=({**_POINT, "offset": -0.5},),
    measure=_measure,
    defects={"behavior refreshed": Defect(replaced(system=schedules.fixed(0)), _POINT)},
    effect=0.02,
    through="loop",
    elsewhere=({"offset": 0.05},),
)
