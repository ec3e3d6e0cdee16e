"""Largest ratios of neighboring divergences that a search over policy pairs finds, by enumeration and metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import diagnostics
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import metrics_of
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.ratio._pairs import bandit, drawn, two_arms

_RARE, _ARMS = 1e-5, 4
"""Share of the arm of weight R; the limit is missed by about as much."""


def _metrics(kl: str = "kl_reverse", second: Any = "m2_all") -> list[Any]:
    return [kl, "chi_square", second, diagnostics.log_ratio_max(), diagnostics.log_ratio_min()]


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    current, behavior = drawn(_ARMS, seed, "divergence-chain")
    narrow = behavior + 0.3 * (current - behavior)
    one_left = np.concatenate([40.0 * np.eye(_ARMS), current[:100]])
    wide: Any = plant(bandit(_ARMS, _metrics()))
    sets = [
        metrics_of(wide, *pair)
        for pair in ((current, behavior), (narrow, behavior), (one_left, behavior[: 100 + _ARMS]))
    ]
    sets.append(metrics_of(plant(bandit(2, _metrics())), *two_arms(_RARE, point["largest"])))
    kl, chi_square, second, highest, lowest = (np.concatenate(each) for each in zip(*sets, strict=True))
    renyi, limit = np.log1p(chi_square), np.log(point["largest"]) + 1e-12
    inside = (highest <= limit) & (lowest >= -limit)
    largest = {"kl": kl / renyi, "renyi": renyi / chi_square, "second": (chi_square / second)[inside]}
    return {
        name: Estimate(float(x.max()), tolerance=1e-9 * float(x.max()), samples=x.size) for name, x in largest.items()
    }


_POINT = {"largest": 3.0}

trial = Trial(
    points=(_POINT, {"largest": 20.0}),
    more=({"largest": 1.5},),
    measure=_measure,
    defects={
        "the other direction of KL": Defect(replaced(diagnostics=_metrics(kl="kl_k1")), _POINT),
        "half of the squared log ratio": Defect(replaced(diagnostics=_metrics(second="kl_k2")), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=0.02,
    through="oracle",
)
