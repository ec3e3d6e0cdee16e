"""Effective sample size of large sampled batches, through the loop."""

from __future__ import annotations

import numpy as np

from asyncsim import tasks
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import displaced, mean_of, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.ess._statistic import clamped, with_ess

_SAMPLES, _BATCHES = 4096, 4
_SPREAD = 0.02
"""Relative standard deviation of one replicate's mean over its batches at the points below (measured)."""
_BIAS = 5e-4
"""Allowance for the upward bias of a batch of 4,096, relative; the leading term is below 3e-4 at the points below."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    replicates = max(48, units_for(_SPREAD, effect, 2))
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.softmax_bandit(len(places[0]))
    ess = mean_of(run(displaced(task, places, ["ess"], (_SAMPLES, _BATCHES, replicates)), seed, plant), "ess")
    return {"ess": ess._replace(tolerance=_BIAS * ess.value)}


_NEAR = {"behavior_logits": (0.0, 0.0, 0.0), "current_logits": (0.5, 0.0, -0.5)}
_FAR = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (2.0, -0.9, 0.1)}

trial = Trial(
    points=(_NEAR, _FAR),
    measure=_measure,
    defects={
        "clamped weights": Defect(with_ess(clamped), _FAR),
        "scored at another temperature": Defect(with_policy(Tempered), _FAR),
    },
    effect=0.02,
    through="loop",
    elsewhere=({"current_logits": (0.0, 0.0, 0.0)},),
)
