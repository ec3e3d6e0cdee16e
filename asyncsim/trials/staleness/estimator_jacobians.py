"""Jacobians of mean gradients in current and in behavior logits, by differences of the product's oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import ShortProduct, with_method, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import BEHAVIOR
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_SHIFT = 0.005
_TOLERANCE = 1e-6


def _methods(baseline: float) -> dict[str, Method]:
    advantage: Any = advantages.offset(baseline)
    plain = "sequence_sum"
    return {
        "stale_none": methods.reinforce(advantage),
        "stale_token": methods.full_is("token", advantage),
        "stale_prefix": methods.prefix_is(advantage),
        "stale_clipped": methods.ppo_clip(advantage=advantage, aggregator=plain),
        "current_sequence": methods.full_is("sequence", advantage),
        "current_per_decision": methods.per_decision_is(advantage),
        "current_truncated": methods.truncated_is("sequence", 2.0, advantage, plain),
    }


def _jacobian(spec: Spec, flat: np.ndarray, stale: bool) -> np.ndarray:
    """Central differences of fourth order, `[P, P]`."""
    total = np.zeros((flat.size, flat.size))
    for multiple, weight in ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)):
        moved, here = flat + multiple * _SHIFT * np.eye(flat.size), np.tile(flat, (flat.size, 1))
        now, then = (here, moved) if stale else (moved, here)
        total += weight / (12.0 * _SHIFT) * oracle.limit(spec.task, spec.method, now, then, spec.policy)
    return total.T


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"], success=point["success"])
    found: dict[str, Estimate] = {}
    for name, method in _methods(point["baseline"]).items():
        jacobian = _jacobian(plant(population(task, method)), np.ravel(point["logits"]), name.startswith("stale"))
        tolerance = _TOLERANCE * float(np.linalg.norm(jacobian))
        found |= {f"{name}[{k}]": Estimate(float(x), tolerance=tolerance) for k, x in enumerate(jacobian.ravel())}
    return found


def _point(dependence: str, horizon: int, rows: int, success: float) -> Point:
    # Two actions: already these Jacobians have up to 36 entries each.
    logits = tuple(row[:2] for row in BEHAVIOR[:rows])
    point = {"actions": 2, "horizon": horizon, "dependence": dependence, "logits": logits}
    return {**point, "success": success, "baseline": 0.3}


_MARKOV = _point("markov", 3, 3, 0.6)

trial = Trial(
    points=(_MARKOV, _point("iid", 4, 1, 0.5)),
    more=(_point("position", 3, 3, 1.0),),
    measure=_measure,
    defects={
        "token ratio in place of every other": Defect(with_method(weight=Ratio("token")), _MARKOV),
        "score at the behavior version": Defect(with_method(at="behavior"), _MARKOV),
        "last token left out of the log-prob": Defect(with_policy(ShortProduct), _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
