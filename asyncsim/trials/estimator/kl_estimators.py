"""Divergence metrics and the steps of divergence penalties on enumerated sequences, through the oracle."""

from __future__ import annotations

from asyncsim import advantages, diagnostics, methods, penalties, tasks
from asyncsim.learning import oracle
from asyncsim.trials._plants import ShortProduct, Tempered, with_method, with_policy
from asyncsim.trials._runs import population
from asyncsim.trials._sequences import components, cut_off, exactly, places, sequence_point
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial

_VALUES = {"k1": diagnostics.kl_k1, "k2": diagnostics.kl_k2, "k3": diagnostics.kl, "reverse": diagnostics.kl_reverse}
_K1 = penalties.k1(1.0, to="behavior")
_K2 = penalties.k2(1.0, to="behavior", ratio="sequence", level="sequence")
_K3 = penalties.k3(1.0, to="behavior", ratio="sequence")


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    task = tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
    method = methods.full_is(advantage=advantages.none()).replace(penalties=(_K1, _K2, _K3))
    spec = plant(population(task, method))
    step = oracle.population_step(task, spec.method, *places(point), spec.policy)
    found = {name: exactly(metric.measure(step).item()) for name, metric in _VALUES.items()}
    allowance = 4.0 * point["horizon"] * cut_off(task, point)
    plain = oracle.limit(task, spec.method.replace(penalties=()), *places(point), spec.policy)
    for k, penalty in enumerate(spec.method.penalties, 1):
        both = oracle.limit(task, spec.method.replace(penalties=(penalty,)), *places(point), spec.policy)
        found |= components(f"k{k}_step", both - plain, allowance)
    return found


_MARKOV = sequence_point("markov", 4, 4)
_UNWEIGHTED = penalties.k2(1.0, to="behavior", level="sequence")
_TOKENS = penalties.k2(1.0, to="behavior", ratio="sequence")
_CENTERED = penalties.k1(1.0, to="behavior", ratio="sequence")

trial = Trial(
    points=(sequence_point("iid", 4, 1), sequence_point("position", 3, 3), _MARKOV),
    more=(sequence_point("markov", 7, 4),),
    measure=_measure,
    defects={
        "scored at another temperature": Defect(with_policy(Tempered), _MARKOV),
        "last token left out": Defect(with_policy(ShortProduct), _MARKOV),
        "k1 loss weighted": Defect(with_method(penalties=(_CENTERED, _K2, _K3)), _MARKOV),
        "k2 loss unweighted": Defect(with_method(penalties=(_K1, _UNWEIGHTED, _K3)), _MARKOV),
        "k2 of tokens": Defect(with_method(penalties=(_K1, _TOKENS, _K3)), _MARKOV),
        "k2 in place of k3": Defect(with_method(penalties=(_K1, _K2, _TOKENS)), _MARKOV),
    },
    effect=0.02,
    through="oracle",
)
