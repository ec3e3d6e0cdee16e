"""Where REINFORCE with a group's mean reward as baseline ends on frozen data, and how fast, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import arms, offline, policy

_UPDATES = 20
_TOLERANCE = 1e-9


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # The field is the same everywhere, so the size of a step only sets how far the run gets.
    step = 5e5 / float(np.ptp(point["rewards"]))
    spec = offline(point, methods.reinforce(advantages.group_mean()), step, _UPDATES)
    logits = run(spec, seed, plant).parameters[0]
    speed = (logits - np.array(point["behavior_logits"])) / (step * _UPDATES)
    return {**arms("speed", speed, _TOLERANCE * float(np.linalg.norm(speed))), **arms("pi", policy(logits), _TOLERANCE)}


_POINT = {"behavior_logits": (0.6, 0.06, -1.9), "rewards": (0.6, 0.9, 1.0)}
_FIVE = {"behavior_logits": (0.5, 0.1, -0.3, 0.2, 0.0), "rewards": (0.0, 0.3, 0.9, 1.0, 0.5)}

trial = Trial(
    points=(_POINT, _FIVE),
    more=({**_FIVE, "behavior_logits": (1.5, -1.0, 0.8, -0.7, 0.0)},),
    measure=_measure,
    defects={
        "behavior refreshed": Defect(replaced(system=schedules.fixed(0)), _POINT),
        "ratio inserted": Defect(with_method(weight=Ratio("sequence", None)), _POINT),
        "baseline above the mean": Defect(with_method(advantage=advantages.group_mean(shift=0.02)), _POINT),
    },
    effect=0.02,
    through="loop",
)
