"""Mean and total variance of the gradient under baselines of the batch itself, over every batch, by the oracle."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.advantages._advantage import Advantage
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import FourthPower, dropped_ratio, with_method
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components, exactly
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _baseline(point: Point) -> Advantage:
    out = bool(point["leave_one_out"])
    if point["baseline"] == "mean":
        return advantages.leave_one_out() if out else advantages.group_mean()
    made = {"self_normalized": advantages.self_normalized, "plug_in": advantages.opob}[point["baseline"]]
    advantage: Advantage = made(leave_one_out=out)
    return advantage


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards = point["rewards"]
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    spec = plant(population(task, methods.full_is(advantage=_baseline(point))))
    places = np.array(point["current_logits"]), np.array(point["behavior_logits"])
    found = oracle.moments(task, spec.method, *places, samples=point["samples"])
    return components("mean", found.mean) | {"variance": exactly(found.variance)}


def _fourth_power(spec: Spec) -> Spec:
    return spec.replace(method=spec.method.replace(advantage=FourthPower(spec.method.advantage)))


_PAIR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1), "rewards": (0.2, 0.5, 1.0)}
_POINT = {**_PAIR, "samples": 3, "leave_one_out": False}
_PLUG_IN = {**_POINT, "baseline": "plug_in"}
_OUT = {**_PLUG_IN, "leave_one_out": True}
_WIDE = {
    "behavior_logits": (0.0, 0.5, -0.5, 0.2), "current_logits": (1.0, -0.5, 0.3, 0.0), "rewards": (1.0, 0.0, 0.6, 0.3),
    "samples": 4, "leave_one_out": False,
}  # fmt: skip

trial = Trial(
    points=(_PLUG_IN, _OUT, *({**_POINT, "baseline": name} for name in ("mean", "self_normalized"))),
    more=(
        {**_POINT, "baseline": "mean", "leave_one_out": True},
        {**_POINT, "baseline": "self_normalized", "leave_one_out": True},
        {**_WIDE, "baseline": "plug_in"},
    ),
    measure=_measure,
    defects={
        "weight to the fourth power": Defect(_fourth_power, _PLUG_IN),
        "sample inside its own baseline": Defect(with_method(advantage=advantages.opob()), _OUT),
        "dropped ratio": Defect(dropped_ratio, _OUT),
    },
    effect=0.02,
    through="oracle",
)
