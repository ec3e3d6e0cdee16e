"""Exact mean gradients of advantages of a group, over every batch of sequences of unequal length, by the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.trials._plants import Tempered, dropped_ratio, with_method, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components, places
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_MADE: dict[str, Callable[[Point], Any]] = {
    "group_mean": lambda p: advantages.group_mean(),
    "leave_one_out": lambda p: advantages.leave_one_out(),
    "opo": lambda p: advantages.opo(),
    "opo_others": lambda p: advantages.opo(leave_one_out=True),
    "opob": lambda p: advantages.opob(),
    "opob_others": lambda p: advantages.opob(leave_one_out=True),
    "normalized": lambda p: advantages.self_normalized(),
    "normalized_others": lambda p: advantages.self_normalized(leave_one_out=True),
    "group_std": lambda p: advantages.group_std(unbiased=True),
    "maxrl": lambda p: advantages.maxrl(),
    "soft_value": lambda p: advantages.soft_value(p["temperature"]),
    "pass_at_k": lambda p: advantages.pass_at_k(p["k"]),
    "remax": lambda p: advantages.remax(),
    "gdpo": lambda p: advantages.gdpo(p["limit"], p["weight"]),
    "returns_to_go": lambda p: advantages.returns_to_go(p["discount"]),
    "returns_less_mean": lambda p: advantages.returns_to_go(p["discount"], "batch"),
    "reinforce_plus_plus": lambda p: advantages.reinforce_plus_plus("group", p["discount"]),
    "otb": lambda p: advantages.otb(),
}
_NAMES = ("temperature", "k", "limit", "weight", "discount")


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"], ends=True)
    advantage = _MADE[point["advantage"]]({name: point[name] for name in _NAMES})
    spec = plant(population(task, methods.full_is(advantage=advantage, aggregator="sequence_sum")))
    current, behavior = places(point)
    found = oracle.moments(spec.task, spec.method, current, behavior, point["samples"], spec.policy)
    return components("gradient", np.asarray(found.mean))


def _point(advantage: str, **changes: Any) -> dict[str, Any]:
    laws = {"behavior_logits": ((0.3, -0.2), (0.0, 0.5)), "current_logits": ((0.9, -0.6), (0.4, -0.3))}
    sizes = {"actions": 2, "horizon": 2, "dependence": "position", "samples": 3}
    knobs = {"discount": 0.8, "temperature": 0.5, "k": 2, "limit": 1, "weight": 0.7}
    return {**sizes, **laws, "advantage": advantage, **knobs, **changes}


_AT = {name: _point(name) for name in _MADE}


def _other(advantage: Any) -> Plant:
    return with_method(advantage=advantage)


trial = Trial(
    points=tuple(_AT.values()),
    more=(_point("pass_at_k", k=3, samples=4), _point("opob", samples=5)),
    measure=_measure,
    defects={
        "sample in its own baseline": Defect(_other(advantages.opob()), _AT["opob_others"]),
        "length for the norm of the score": Defect(_other(advantages.opo()), _AT["opob"]),
        "ratio for the norm of the score": Defect(_other(advantages.self_normalized()), _AT["opob"]),
        "deviation of N": Defect(_other(advantages.group_std()), _AT["group_std"]),
        "mean for the soft value": Defect(_other(advantages.group_mean()), _AT["soft_value"]),
        "sets of three": Defect(_other(advantages.pass_at_k(3)), _AT["pass_at_k"]),
        "length not rewarded": Defect(_other(advantages.gdpo()), _AT["gdpo"]),
        "not discounted": Defect(_other(advantages.returns_to_go()), _AT["returns_to_go"]),
        "standardized over samples": Defect(_other(advantages.group_std()), _AT["reinforce_plus_plus"]),
        "mean for every position": Defect(_other(advantages.group_mean()), _AT["otb"]),
        "dropped ratio": Defect(dropped_ratio, _AT["normalized"]),
        "scored at another temperature": Defect(with_policy(Tempered), _AT["remax"]),
    },
    effect=0.02,
    through="oracle",
    elsewhere=({"samples": 2},),
)
