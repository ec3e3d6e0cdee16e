"""Exact variances of an importance-weighted gradient and of the one on policy, beside the ESS, through the oracle."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import dropped_ratio, with_method
from asyncsim.trials._runs import metrics_of, population
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_ROUNDING = 1e-9


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards = point["rewards"]
    current, behavior = np.array(point["current_logits"]), np.array(point["behavior_logits"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    spec = plant(population(task, methods.full_is(advantage=advantages.none())).replace(diagnostics=["ess"]))
    value = float(oracle.exact(task, current)[0])

    def inflation(baseline: float) -> float:
        method = spec.method.replace(advantage=advantages.offset(baseline))
        stale, fresh = (oracle.moments(task, method, current, place, samples=1) for place in (behavior, current))
        return stale.variance / fresh.variance

    values = {
        "inverse_ess": 1.0 / metrics_of(spec, current, behavior)[0].item(),
        "inflation": inflation(0.0),
        "inflation_centered": inflation(value),
    }
    return {name: Estimate(v, tolerance=_ROUNDING * v) for name, v in values.items()}


def _arms(probability: float) -> tuple[float, float]:
    """Logits of two arms, the first of which has this probability."""
    return float(np.log(probability)), float(np.log1p(-probability))


_LIKELY = {"rewards": (1.0, 0.0), "behavior_logits": _arms(0.5), "current_logits": _arms(0.9)}
_THREE = {"rewards": (0.2, 0.5, 1.0), "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}

trial = Trial(
    points=(_LIKELY, {**_LIKELY, "rewards": (0.0, 1.0)}, _THREE),
    measure=_measure,
    defects={
        "dropped ratio": Defect(dropped_ratio, _THREE),
        "truncated ratio": Defect(with_method(weight=Ratio("sequence", 1.1)), _THREE),
    },
    effect=0.02,
    through="oracle",
)
