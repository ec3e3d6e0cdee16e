"""Second moment of sequence ratios by enumeration through the product's policies and ratios."""

from __future__ import annotations

import numpy as np

from asyncsim import methods, oracle, ratios, schedules, tasks
from asyncsim.records import Estimate, Point
from asyncsim.spec import Spec
from asyncsim.trials._plants import ShortProduct, with_policy
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.updates._link import chain

_ROUNDING = 1e-10


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    spec = plant(Spec(task, schedules.frozen(), methods.full_is(), chain(), sampling="enumerate"))
    now, then = (np.ravel(point[name]) for name in ("current_logits", "behavior_logits"))
    signal = oracle.population_signal(task, spec.method, now, then, spec.policy)
    second = 1.0 + ratios.chi_square(signal.sequence_log_ratio, signal.step_mass).item()
    return {"second_moment": Estimate(second, tolerance=_ROUNDING * second)}


_BEHAVIOR = ((0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
_CURRENT = ((1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.3, -0.3, 0.6), (0.2, 0.8, -0.5))


def _point(dependence: str, horizon: int, rows: int) -> Point:
    return {
        "actions": 3,
        "horizon": horizon,
        "dependence": dependence,
        "behavior_logits": _BEHAVIOR[:rows],
        "current_logits": _CURRENT[:rows],
    }


trial = Trial(
    claim="ratio/sequence-product",
    points=(_point("iid", 6, 1), _point("position", 3, 3), _point("markov", 5, 4)),
    more=(_point("markov", 8, 4),),
    measure=_measure,
    defects={"last token left out": Defect(with_policy(ShortProduct), _point("markov", 5, 4))},
    effect=0.02,
    through="oracle",
)
