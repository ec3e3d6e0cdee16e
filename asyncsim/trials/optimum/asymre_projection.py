"""Where REINFORCE with a pessimistic fixed baseline ends on frozen data, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import arms, offline, policy, settled

_UPDATES = 800
_STEP = 3.0
_TOLERANCE = 1e-6


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    method = methods.reinforce(advantages.offset(point["offset"]))
    step = _STEP / max(1.0, float(np.abs(np.array(point["rewards"]) - point["offset"]).max()))

    def ending(updates: int) -> np.ndarray:
        return policy(run(offline(point, method, step, updates), seed, plant).parameters[0])

    return arms("pi", settled(ending, _UPDATES, 0.1 * _TOLERANCE), _TOLERANCE)


_POINT = {"behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0), "rewards": (0.0, 0.3, 0.9, 1.0, 0.5), "offset": 0.2}

trial = Trial(
    points=(_POINT, {**_POINT, "offset": 0.35}),
    more=({**_POINT, "offset": -0.5},),
    measure=_measure,
    defects={"behavior refreshed": Defect(replaced(system=schedules.fixed(0)), _POINT)},
    effect=0.02,
    through="loop",
)
