"""Population gradient of sequence-level importance sampling, through the oracle."""

from __future__ import annotations

from asyncsim import advantages, methods
from asyncsim.learning import oracle
from asyncsim.trials._plants import dropped_ratio
from asyncsim.trials._sequences import components, cut_off, places, planted, sequence_point, token_level
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    spec = planted(point, methods.full_is(advantage=advantages.none()), plant)
    gradient = oracle.limit(spec.task, spec.method, *places(point), spec.policy)
    return components("grad", gradient, 2.0 * point["horizon"] * cut_off(spec.task, point))


_MARKOV = sequence_point("markov", 4, 4, success=0.5)

trial = Trial(
    points=(sequence_point("iid", 5, 1, success=None), sequence_point("position", 3, 3, success=1.0), _MARKOV),
    more=(sequence_point("markov", 7, 4, success=0.7),),
    measure=_measure,
    defects={
        "dropped ratio": Defect(dropped_ratio, _MARKOV),
        "token ratio in place of the sequence's": Defect(token_level(), _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
