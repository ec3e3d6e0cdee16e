"""Moments and effective sample size of the ratios of long Markov sequences, sampled through the loop."""

from __future__ import annotations

from functools import partial

import numpy as np

from asyncsim import tasks
from asyncsim.trials._chains import BATCHES, MOMENTS, SAMPLES, moments, moments_beyond, replicates_for, spread_of_square
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._runs import displaced, run
from asyncsim.trials._sequences import BEHAVIOR
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_EFFECT, _COMPARISONS = 0.02, 6


def _moment(point: Point, power: float) -> float:
    """E W^power, for sample sizes and allowances: matrices of token moments multiplied up."""
    mu, pi = (np.exp(np.asarray(point[f"{name}_logits"], dtype=np.float64)) for name in ("behavior", "current"))
    mu, pi = mu / mu.sum(1, keepdims=True), pi / pi.sum(1, keepdims=True)
    weights = pi**power * mu ** (1.0 - power)
    with np.errstate(over="ignore"):
        return float((weights[0] @ np.linalg.matrix_power(weights[1:], point["horizon"] - 1)).sum())


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    moment = partial(_moment, point)
    task = tasks.token_bandit(point["actions"], point["horizon"], "markov")
    places = np.ravel(point["behavior_logits"]), np.ravel(point["current_logits"])
    replicates = replicates_for(spread_of_square(moment), effect, _COMPARISONS)
    return moments(run(displaced(task, places, MOMENTS, (SAMPLES, BATCHES, replicates)), seed, plant), moment)


_NEAR = ((0.4, -0.3, 0.4), (0.1, 0.6, -0.5), (-0.4, 0.1, 0.2), (0.7, 0.2, 0.0))
_POINT = {"actions": 3, "horizon": 24, "behavior_logits": BEHAVIOR, "current_logits": _NEAR}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "horizon": 32},),
    measure=_measure,
    defects={
        "last token left out": Defect(with_policy(ShortProduct), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=_EFFECT,
    reach=lambda point: moments_beyond(partial(_moment, point)),
    through="loop",
)
