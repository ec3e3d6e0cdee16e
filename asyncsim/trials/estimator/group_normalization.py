"""Mean gradient of groups under each normalization, over every batch of samples and rewards, by the oracle."""

from __future__ import annotations

import numpy as np

from asyncsim import advantages, methods, tasks
from asyncsim.learning import oracle
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_BATCHES = 200_000


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    means, eps = point["means"], point["eps"]
    advantage = {
        "leave_one_out": advantages.leave_one_out(),
        "mean": advantages.group_mean(),
        "std": advantages.group_std(eps),
        "std_unbiased": advantages.group_std(eps, unbiased=True),
        "maxrl": advantages.maxrl(eps),
    }[point["normalization"]]
    task = tasks.softmax_bandit(len(means), means)
    spec = plant(population(task, methods.reinforce(advantage)))
    found = oracle.moments(task, spec.method, np.array(point["logits"]), samples=point["samples"])
    factor = float(found.mean @ found.exact / (found.exact @ found.exact))
    return {"factor": Estimate(factor, tolerance=1e-9 * abs(factor))} | components("mean", found.mean)


def _reach(point: Point) -> str | None:
    batches = (2 * len(point["means"])) ** point["samples"]
    return None if batches <= _BATCHES else f"samples such that (2 arms)**samples <= {_BATCHES}; take fewer"


_POINT = {"means": (0.1, 0.7), "logits": (0.5, -0.5), "samples": 4, "eps": 1e-6}
_STD = {**_POINT, "normalization": "std"}
_UNBIASED = {**_POINT, "normalization": "std_unbiased"}

trial = Trial(
    points=(_STD, _UNBIASED, *({**_POINT, "normalization": name} for name in ("mean", "leave_one_out", "maxrl"))),
    more=({"means": (0.001, 0.01), "logits": (0.0, 0.0), "samples": 8, "eps": 1e-3, "normalization": "std"},),
    measure=_measure,
    defects={
        "other divisor of the variance": Defect(with_method(advantage=advantages.group_std(unbiased=True)), _STD),
        "population deviation": Defect(with_method(advantage=advantages.group_std()), _UNBIASED),
        "eps of 0.1": Defect(with_method(advantage=advantages.group_std(0.1)), _STD),
        "no scale": Defect(with_method(advantage=advantages.group_mean()), _STD),
    },
    effect=0.02,
    reach=_reach,
    through="oracle",
)
