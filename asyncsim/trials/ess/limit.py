"""Effective sample size of large sampled batches, through the loop."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from asyncsim import tasks
from asyncsim.trials._chains import bias_of_ess, moment_of, moments_beyond, spread_of_ess
from asyncsim.trials._plants import Tempered, with_policy
from asyncsim.trials._runs import displaced, mean_of, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, units_for
from asyncsim.trials.ess._statistic import clamped, with_ess

_SAMPLES, _BATCHES, _MOST = 4096, 4, 4_000_000


def _moment(point: Point, power: float) -> float:
    return moment_of(point["behavior_logits"], point["current_logits"], power)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    moment = partial(_moment, point)
    units = units_for(1.2 * spread_of_ess(moment) / math.sqrt(_SAMPLES * _BATCHES), effect, 2)
    replicates = max(48, min(units, _MOST // (_SAMPLES * _BATCHES)))
    places = np.array(point["behavior_logits"]), np.array(point["current_logits"])
    task = tasks.softmax_bandit(len(places[0]))
    ess = mean_of(run(displaced(task, places, ["ess"], (_SAMPLES, _BATCHES, replicates)), seed, plant), "ess")
    return {"ess": ess._replace(tolerance=2.0 * bias_of_ess(moment, _SAMPLES) * ess.value)}


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
    reach=lambda point: moments_beyond(partial(_moment, point), _SAMPLES, _MOST),
    through="loop",
)
