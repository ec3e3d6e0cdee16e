"""How far bad samples of frozen data push a policy, with and without TOPR's ratio, through the loop and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from asyncsim import advantages, methods, schedules, tasks
from asyncsim.learning import oracle
from asyncsim.learning.step import Step
from asyncsim.methods._method import Method
from asyncsim.trials._plants import dropped_ratio, with_method
from asyncsim.trials._runs import population, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import offline

_UPDATES = 100
_Topr: Any = type(methods.topr().weight)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    bad = point["bad_mass"]
    logits = np.log([bad, 1.0 - bad])
    bandit = {"behavior_logits": logits, "rewards": (-1.0, 0.0)}

    def gap(method: Method) -> Estimate:
        # Two sizes of the step: their difference says what is left to the flow.
        coarse, fine = (_gap(bandit, method, point["time"], n, seed, plant) for n in (_UPDATES // 2, _UPDATES))
        return Estimate(2.0 * fine - coarse, tolerance=0.25 * abs(fine - coarse))

    gaps = {"naive_gap": gap(methods.reinforce(advantages.none())), "topr_gap": gap(methods.topr(advantages.none()))}
    # What the weights of good and bad samples add up to, under a policy that has fallen behind.
    spec = plant(
        population(
            tasks.softmax_bandit(2, (-1.0, 1.0), rewards="fixed"), methods.topr(advantages.offset(point["baseline"]))
        )
    )
    now = logits + np.array([point["setback"], 0.0])
    pull = oracle.population_step(spec.task, spec.method, now, logits).cotangents["log_prob"]
    return {**gaps, "positive_share": Estimate(float(pull.clamp(min=0.0).sum() / pull.abs().sum()), tolerance=1e-12)}


def _gap(bandit: Point, method: Method, time: float, updates: int, seed: int, plant: Plant) -> float:
    end = run(offline(bandit, method, time / updates, updates), seed, plant).parameters[0]
    return float(end[1] - end[0])


class _AllTapered(_Topr):
    """The truncated ratio on good samples too."""

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """min(W, 1) A."""
        return step.sequence(step.log_ratio).exp().clamp(max=1.0) * advantage


_POINT = {"bad_mass": 0.3, "time": 6.0, "baseline": 0.5, "setback": 0.7}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "bad_mass": 0.6, "time": 3.0, "baseline": -0.3}, {**_POINT, "bad_mass": 0.1, "setback": 0.0}),
    measure=_measure,
    defects={
        "behavior refreshed": Defect(replaced(system=schedules.fixed(0)), _POINT),
        "ratio dropped": Defect(dropped_ratio, _POINT),
        "ratio on good samples too": Defect(with_method(weight=_AllTapered()), _POINT),
    },
    effect=0.02,
    through="loop, oracle",
)
