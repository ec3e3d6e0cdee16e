"""Where REINFORCE with a pessimistic fixed baseline ends on frozen data, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.updates._link import chain

_UPDATES = 800
_STEP = 3.0
_TOLERANCE = 1e-6


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    arms = len(point["rewards"])
    spec = Spec(
        tasks.softmax_bandit(arms, point["rewards"], rewards="fixed", logits=point["behavior_logits"]),
        schedules.frozen(),
        methods.reinforce(advantages.offset(point["offset"])),
        chain(updates.sgd(_STEP)),
        updates=_UPDATES,
        replicates=1,
        sampling="enumerate",
        diagnostics="none",
    )
    logits = running.run(plant(spec), seed=seed, progress=False).parameters[0]
    heavy = np.exp(logits - logits.max())
    return {f"pi[{k}]": Estimate(float(p), tolerance=_TOLERANCE) for k, p in enumerate(heavy / heavy.sum())}


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
