"""Decay of the effective sample size with length, by enumeration through the product's metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import diagnostics, methods, tasks
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import ShortProduct, with_policy
from asyncsim.trials._runs import metrics_of, population
from asyncsim.trials._sequences import ROUNDING
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced

_METRICS = ["ess", "log_ratio_variance"]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    lengths, places = point["lengths"], (point["current_logits"], point["behavior_logits"])
    read = []
    for length in lengths:
        task = tasks.token_bandit(len(places[0]), length)
        spec: Spec = plant(population(task, methods.full_is()).replace(diagnostics=_METRICS))
        read.append([each.item() for each in metrics_of(spec, *places)])
    ess, variance = (np.array(values) for values in zip(*read, strict=True))
    rate = -float(np.polyfit(lengths, np.log(ess), 1)[0])
    values = {f"ess[{length}]": float(each) for length, each in zip(lengths, ess, strict=True)}
    values |= {"rate": rate, "per_variance": rate * lengths[0] / float(variance[0])}
    return {
        name: Estimate(value, tolerance=ROUNDING * (1.0 + 1.0 / abs(rate)) * abs(value))
        for name, value in values.items()
    }


def _reach(point: Point) -> str | None:
    cells = len(point["behavior_logits"]) ** max(point["lengths"])
    return None if cells <= 1 << 18 else f"at most 2^18 sequences at the longest length, not {cells}; shorten it"


def _token_ess(spec: Spec) -> Spec:
    metrics: list[Any] = ["ess_token", "log_ratio_variance"]
    return spec.replace(diagnostics=metrics)


_SMALL = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (0.36, -0.26, 0.5), "lengths": (1, 2, 4, 6)}
_LARGE = {"behavior_logits": (0.3, -0.2), "current_logits": (1.1, -0.9), "lengths": (2, 5, 10)}

trial = Trial(
    points=(_SMALL, _LARGE),
    measure=_measure,
    defects={
        "effective size of tokens": Defect(_token_ess, _LARGE),
        "last token left out": Defect(with_policy(ShortProduct), _LARGE),
        "weights clamped": Defect(
            replaced(diagnostics=[diagnostics.ess_token_clamped(2.0, level="sequence"), "log_ratio_variance"]), _LARGE
        ),
    },
    effect=0.02,
    reach=_reach,
    through="oracle",
)
