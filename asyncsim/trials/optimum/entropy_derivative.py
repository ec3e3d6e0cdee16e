"""How fast entropy changes with the step of REINFORCE on stale data and of a solved regression, by oracle and loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import advantages, diagnostics, methods, schedules, tasks, updates
from asyncsim.learning import oracle
from asyncsim.methods._weights import Ratio
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import ascent, population, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import settled
from asyncsim.updates._link import chain

_STEP, _UPDATES = 1e-3, 300
_BETAS = np.array([50.0, 100.0])


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, now, then = point["rewards"], np.array(point["current_logits"]), np.array(point["behavior_logits"])
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
    spec = plant(population(task, methods.reinforce(advantages.group_mean())))

    def entropy(parameters: Any) -> np.ndarray:
        bonus = methods.reinforce(entropy=1.0)  # only so that the step holds the entropy
        step = oracle.population_step(spec.task, bonus, parameters, parameters, spec.policy)
        return diagnostics.entropy.measure(step).numpy()

    # A step of either sign along the method's gradient: the error is that of a third derivative.
    gradient = oracle.limit(spec.task, spec.method, now, then, spec.policy)
    both = entropy(now + np.outer((1.0, -1.0), _STEP * gradient))
    plain = float(both[0] - both[1]) / (2.0 * _STEP)
    # A regression that is solved fully moves logits by r/beta; two values of beta give the limit of small steps.
    # Momentum solves it for rare arms too.
    links = chain(updates.momentum(0.9), updates.sgd(tuple(1.5 / _BETAS**2)))

    def changed(count: int) -> np.ndarray:
        spec = ascent(
            task, schedules.frozen(), methods.oapl(tuple(_BETAS)), 1.0, count, replicates=_BETAS.size, initial=now
        )
        return (entropy(run(spec.replace(update=links), seed, plant).parameters) - entropy(now)) * _BETAS

    few = float(np.abs(changed(_UPDATES)).max())
    coarse, fine = map(float, settled(changed, _UPDATES, 3e-4 * few))
    natural = 2.0 * fine - coarse
    return {
        "policy_gradient": Estimate(plain, tolerance=1e-4 * abs(plain)),
        "natural_gradient": Estimate(natural, tolerance=0.05 * abs(fine - coarse) + 1e-3 * abs(natural)),
    }


_POINT = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1), "rewards": (0.2, 1.0, 0.5)}
_FRESH = (0.7, 1.4, -0.9)
# Here entropy falls with the policy gradient and rises with the natural one, on fresh data.
_APART = {"behavior_logits": _FRESH, "current_logits": _FRESH, "rewards": (0.0, 0.4, 0.9)}

trial = Trial(
    points=(_POINT, _APART),
    more=({**_POINT, "rewards": (1.0, 0.1, 0.4)},),
    measure=_measure,
    defects={
        "ratio inserted": Defect(with_method(weight=Ratio("sequence", None)), _POINT),
        "regression never solved": Defect(replaced(system=schedules.fixed(0)), _POINT),
    },
    effect=0.02,
    through="loop, oracle",
)
