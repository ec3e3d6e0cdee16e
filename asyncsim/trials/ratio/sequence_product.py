"""Second moment of sequence ratios by enumeration through the product's policies and ratios."""

from __future__ import annotations

from asyncsim import methods, tasks
from asyncsim.learning import oracle, ratios
from asyncsim.trials._plants import ShortProduct, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import ROUNDING, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    spec = plant(population(task, methods.full_is()))
    signal = oracle.population_step(task, spec.method, *places(point), spec.policy)
    second = 1.0 + ratios.chi_square(signal.sequence_log_ratio, signal.step_mass).item()
    return {"second_moment": Estimate(second, tolerance=ROUNDING * second)}


trial = Trial(
    points=(sequence_point("iid", 6, 1), sequence_point("position", 3, 3), sequence_point("markov", 5, 4)),
    more=(sequence_point("markov", 8, 4),),
    measure=_measure,
    defects={"last token left out": Defect(with_policy(ShortProduct), sequence_point("markov", 5, 4))},
    effect=0.02,
    through="oracle",
)
