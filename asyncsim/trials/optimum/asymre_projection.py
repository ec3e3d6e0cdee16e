"""Where REINFORCE with a pessimistic fixed baseline ends on frozen data, through the loop."""

from __future__ import annotations

from asyncsim import advantages, methods, schedules
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import arms, offline, policy

_UPDATES = 800
_STEP = 3.0
_TOLERANCE = 1e-6


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    method = methods.reinforce(advantages.offset(point["offset"]))
    return arms("pi", policy(run(offline(point, method, _STEP, _UPDATES), seed, plant).parameters[0]), _TOLERANCE)


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
