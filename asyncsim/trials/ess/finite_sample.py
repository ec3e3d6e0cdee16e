"""Effective sample size and largest share of small sampled batches of sequences, through the loop."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from asyncsim import tasks
from asyncsim.learning.step import Step
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._runs import displaced, mean_of, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.ess._statistic import clamped, pooled, with_ess

_BATCHES = 16
_SPREAD = 0.15
"""Relative standard deviation of one replicate's mean over its batches at the points below (measured: at most 0.13)."""
_MOST = 1 << 13
"""Tokens of a batch, at most."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = units_for(_SPREAD, effect, 2 * len(trial.points))
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.token_bandit(len(places[0]), point["horizon"])
    size = point["samples"], _BATCHES, replicates
    trace = run(displaced(task, places, ["ess", "max_weight_share"], size), seed, plant)
    return {"ess": mean_of(trace, "ess", 1e-9), "largest_share": mean_of(trace, "max_weight_share", 1e-9)}


def _padded(step: Step) -> Tensor:
    """A small number added to the sum of squares."""
    weight = step.sequence_log_ratio.exp().flatten(1)
    return weight.sum(1) ** 2 / ((weight**2).sum(1) + 0.5) / weight.shape[1]


def _reach(point: Point) -> str | None:
    tokens = point["samples"] * point["horizon"]
    return None if tokens <= _MOST else f"a batch of at most {_MOST} tokens, not {tokens}; take fewer samples"


_FEW = {"samples": 4, "horizon": 3, "behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
_LONG = {"samples": 16, "horizon": 12, "behavior_logits": (0.2, 0.0, -0.3), "current_logits": (0.8, -0.2, -0.3)}

trial = Trial(
    points=(_FEW, _LONG),
    more=({**_LONG, "samples": 64, "horizon": 24},),
    measure=_measure,
    defects={
        "batches averaged before squaring": Defect(with_ess(pooled, "max_weight_share"), _LONG),
        "a small number in the denominator": Defect(with_ess(_padded, "max_weight_share"), _FEW),
        "clamped weights": Defect(with_ess(clamped, "max_weight_share"), _FEW),
        "last token left out": Defect(with_policy(ShortProduct), _FEW),
        "scored at another temperature": Defect(with_policy(Tempered), _LONG),
    },
    effect=0.02,
    reach=_reach,
    through="loop",
)
