"""Geometric mean ratios of enumerated sequences: as a weight, and through the mask that keeps a band of them."""

from __future__ import annotations

import math

from asyncsim import diagnostics, factors, methods, tasks
from asyncsim.learning import oracle
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import ShortProduct, with_method, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import exactly, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_NEVER = 1e6
"""A cap above every ratio."""


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    mask = factors.geometric_mask(point["low"], point["high"])
    spec = plant(population(task, methods.truncated_is("geometric", cap=_NEVER).replace(factors=(mask,))))
    step = oracle.population_step(task, spec.method, *places(point), spec.policy)
    every = oracle.population_step(task, spec.method.replace(factors=()), *places(point), spec.policy)
    found = {
        "loss": -math.log(diagnostics.applied_mean.measure(every).item()),
        "kept": step.statistics["kept_sequences"].item(),
        "kl": diagnostics.kl_k1.measure(step).item() / point["horizon"],
    }
    return {name: exactly(value) for name, value in found.items()}


_BAND = {"low": 0.8, "high": 1.25}
_MARKOV = sequence_point("markov", 5, 4, **_BAND)

trial = Trial(
    points=(sequence_point("iid", 6, 1, **_BAND), sequence_point("position", 3, 3, **_BAND), _MARKOV),
    more=(
        {"actions": 2, "horizon": 12, "dependence": "iid", **_BAND}
        | {"behavior_logits": ((0.0, 0.0),), "current_logits": ((0.6, 0.0),)},
    ),
    measure=_measure,
    defects={
        "sequence ratio in its place": Defect(with_method(weight=Ratio("sequence")), _MARKOV),
        "band of the sequence ratio": Defect(
            with_method(factors=(factors.sequence_mask(_BAND["low"], _BAND["high"]),)), _MARKOV
        ),
        "last token left out": Defect(with_policy(ShortProduct), _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
