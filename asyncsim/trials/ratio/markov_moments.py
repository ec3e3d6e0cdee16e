"""Moments and effective sample size of the ratios of long Markov sequences, sampled through the loop."""

from __future__ import annotations

import math

import numpy as np

from asyncsim import tasks
from asyncsim.base.records import Estimate, Point
from asyncsim.trials._chains import AFFINITY, BATCHES, SAMPLES, ess_allowance, ess_beyond, replicates_for, too_many
from asyncsim.trials._plants import ShortProduct, Tempered, with_policy
from asyncsim.trials._sequences import BEHAVIOR
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.ratio._displaced import mean_of, run_displaced

_EFFECT, _COMPARISONS = 0.02, 6
_ROUNDING = 1e-10


def _moment(point: Point, power: float) -> float:
    """E W^power, for sample sizes and allowances: matrices of token moments multiplied up."""
    mu, pi = (np.exp(np.asarray(point[f"{name}_logits"], dtype=np.float64)) for name in ("behavior", "current"))
    mu, pi = mu / mu.sum(1, keepdims=True), pi / pi.sum(1, keepdims=True)
    heavy = pi**power * mu ** (1.0 - power)
    with np.errstate(over="ignore"):
        return float((heavy[0] @ np.linalg.matrix_power(heavy[1:], point["horizon"] - 1)).sum())


def _spread(point: Point) -> float:
    """Relative standard deviation of one squared weight."""
    return math.sqrt(max(_moment(point, 4.0) / _moment(point, 2.0) ** 2 - 1.0, 1e-6))


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    trace = run_displaced(
        tasks.token_bandit(point["actions"], point["horizon"], "markov"),
        np.ravel(point["behavior_logits"]),
        np.ravel(point["current_logits"]),
        ["ess", "chi_square", AFFINITY],
        SAMPLES,
        BATCHES,
        replicates_for(_spread(point), effect, _COMPARISONS),
        seed,
        plant,
    )
    ess, second = mean_of(trace, "ess"), mean_of(trace, "chi_square")
    moments = [_moment(point, p) for p in (2.0, 3.0, 4.0)]
    return {
        "ess": ess._replace(tolerance=ess_allowance(*moments) * ess.value),
        "second_moment": second._replace(value=1.0 + second.value),
        "affinity": mean_of(trace, "affinity", _ROUNDING),
    }


def _reach(point: Point) -> str | None:
    return ess_beyond(_moment(point, 2.0)) or too_many(_spread(point), _EFFECT, _COMPARISONS)


_NEAR = ((0.4, -0.3, 0.4), (0.1, 0.6, -0.5), (-0.4, 0.1, 0.2), (0.7, 0.2, 0.0))
_POINT = {"actions": 3, "horizon": 24, "behavior_logits": BEHAVIOR, "current_logits": _NEAR}

trial = Trial(
    claim="ratio/markov-moments",
    points=(_POINT,),
    more=({**_POINT, "horizon": 32},),
    measure=_measure,
    defects={
        "last token left out": Defect(with_policy(ShortProduct), _POINT),
        "scored at another temperature": Defect(with_policy(Tempered), _POINT),
    },
    effect=_EFFECT,
    reach=_reach,
    through="loop",
    elsewhere=({"horizon": 1},),
    refused=({"horizon": 400},),
)
