"""What divergence penalties, an entropy bonus and penalized rewards add to an update, on all responses of a policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from asyncsim import advantages, methods, penalties
from asyncsim.learning import oracle
from asyncsim.methods._method import Method
from asyncsim.trials._plants import with_method
from asyncsim.trials._ragged import TABLES, planted, read, stepped, task_at
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_PLAIN = methods.reinforce(advantages.none())
_TERMS: dict[str, Callable[..., Any]] = {
    "k1": penalties.k1,
    "k2": penalties.k2,
    "k2_whole": lambda *settings: penalties.k2(*settings, level="sequence"),
    "k3": penalties.k3,
    "straight_through": penalties.straight_through,
    "reward": penalties.reward,
    "exact": penalties.exact,
    "exact_reverse": lambda *settings: penalties.exact(*settings, reverse=True),
}


def _method(point: Point) -> tuple[Method, dict[str, Any]]:
    """The method with the penalty, and settings of the task."""
    price, name, to, ratio = (point[key] for key in ("coefficient", "penalty", "to", "ratio"))
    if name in _TERMS:
        return _PLAIN.replace(penalties=(_TERMS[name](price, to, ratio),)), {}
    if name == "entropy":
        return methods.reinforce(advantages.none(), entropy=price), {}
    return _PLAIN, {"kl_coef": price, "kl_at": name.removeprefix("task_")}


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    method, settings = _method(point)
    spec = planted(point, method, plant, reference=point["reference_logits"], **settings)
    step = stepped(spec, point)
    added = step.gradient[0].numpy() - _unpriced(*(point[name] for name in TABLES))
    down = _descent(point["current_logits"], point[f"{point['to']}_logits"])
    found = read(added, point) | {"pull": exactly(float(added @ down / (down @ down)) / point["coefficient"])}
    for name, value in step.statistics.items():
        found |= {"value": exactly(value.item())} if name.endswith("_penalty") else {}
    return found


@cache
def _unpriced(*tables: Any) -> np.ndarray:
    """The update without a penalty, `[P]`."""
    point = dict(zip(TABLES, tables, strict=True))
    gradient: np.ndarray = stepped(population(task_at(point), _PLAIN), point).gradient[0].numpy()
    return gradient


@cache
def _descent(current: Any, other: Any) -> np.ndarray:
    """Minus the gradient of KL(pi || other), which a price of 1 inside the reward adds to the exact gradient, `[P]`."""
    point = {"behavior_logits": current}
    both = task_at(point, reference=other, kl_coef=1.0, kl_at="current"), task_at(point)
    with_price, without = (oracle.exact(task, np.ravel(current))[1] for task in both)
    return with_price - without


_REFERENCE = ((0.2, 0.3, -0.3), (0.4, -0.1, 0.0), (-0.2, 0.0, 0.5))


def _at(penalty: str, to: str = "reference", ratio: str = "none") -> dict[str, Any]:
    settings = {"penalty": penalty, "to": to, "ratio": ratio, "coefficient": 0.5}
    return {**TABLES, "reference_logits": _REFERENCE, **settings}


_K3 = _at("k3", ratio="sequence")

trial = Trial(
    points=(
        _at("k1", "behavior"),
        *(_at("k2"), _at("k2", "behavior", "token"), _at("k2", "proximal", "sequence")),
        *(_at("k2_whole", ratio="sequence"), _K3, _at("k3", "behavior"), _at("k3", "proximal", "token")),
        *(_at("straight_through", ratio="token"), _at("reward", ratio="sequence"), _at("reward", "behavior")),
        *(_at("exact"), _at("exact", "behavior", "sequence"), _at("exact", "proximal")),
        *(_at("exact_reverse", ratio="sequence"), _at("exact_reverse", "behavior")),
        *(_at("entropy"), _at("task_behavior"), _at("task_current")),
    ),
    more=(_at("k2_whole", "behavior"), _at("straight_through", "proximal", "sequence")),
    measure=_measure,
    defects={
        "k2 in place of k3": Defect(with_method(penalties=(penalties.k2(0.5, ratio="sequence"),)), _K3),
        "k1 in place of k3": Defect(with_method(penalties=(penalties.k1(0.5, ratio="sequence"),)), _K3),
        "ratio forgotten": Defect(with_method(penalties=(penalties.k3(0.5),)), _K3),
        "k3 differentiated": Defect(
            with_method(penalties=(penalties.k3(0.5, ratio="token"),)), _at("straight_through", ratio="token")
        ),
        "squares of tokens": Defect(
            with_method(penalties=(penalties.k2(0.5, ratio="sequence"),)), _at("k2_whole", ratio="sequence")
        ),
        "behavior held close": Defect(with_method(penalties=(penalties.k2(0.5, "behavior"),)), _at("k2")),
        "directions exchanged": Defect(with_method(penalties=(penalties.exact(0.5, reverse=True),)), _at("exact")),
        "every token answers for its own": Defect(
            with_method(penalties=(penalties.k2(0.5, ratio="sequence"),)), _at("reward", ratio="sequence")
        ),
        "entropy for its opposite": Defect(with_method(constants={"entropy": -0.5}), _at("entropy")),
        "penalty at the other policy": Defect(
            lambda spec: spec.replace(task=task_at(TABLES, reference=_REFERENCE, kl_coef=0.5, kl_at="current")),
            _at("task_behavior"),
        ),
    },
    effect=0.02,
    through="oracle",
)
