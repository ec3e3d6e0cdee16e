"""Bias of truncated importance sampling by enumeration, through the oracle."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, methods
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import Masked
from asyncsim.trials._sequences import components, cut_off, places, planted, sequence_point, token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    # Not by the name of truncated weights, which refuses caps below 1.
    method = methods.full_is(advantage=advantages.none()).replace(weight=Ratio("sequence", point["cap"]))
    spec = planted(point, method, plant)
    current, behavior = places(point)
    truth = oracle.exact(spec.task, current, spec.policy)[1]
    allowance = 2.0 * point["horizon"] * cut_off(spec.task, point, cap=point["cap"])
    return components("bias", oracle.limit(spec.task, spec.method, current, behavior, spec.policy) - truth, allowance)


def _masking(spec: Spec) -> Spec:
    """Weights above the cap set to 0 instead of to the cap."""
    weight: Any = spec.method.weight
    return spec.replace(method=spec.method.replace(weight=Masked(weight.cap)))


_MARKOV = {**sequence_point("markov", 4, 4, success=0.5), "cap": 1.5}

trial = Trial(
    points=({**sequence_point("iid", 4, 1, success=None), "cap": 2.0}, _MARKOV),
    more=({**sequence_point("position", 3, 3, success=1.0), "cap": 1.2},),
    measure=_measure,
    defects={
        "masking instead of truncation": Defect(_masking, _MARKOV),
        "token factors truncated before the product": Defect(token_level(1.5), _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
