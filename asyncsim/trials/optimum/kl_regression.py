"""Where regressions on lagged data end after a few solves, through the loop; bias of their value, over all groups."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from asyncsim import advantages, methods, schedules, tasks, updates
from asyncsim.learning import oracle
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import with_method
from asyncsim.trials._runs import ascent, run
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced
from asyncsim.trials.optimum._frozen import arms, policy, settled
from asyncsim.updates._link import chain

_SOLVE, _MOMENTUM = 160, 0.8
_TOLERANCE = 1e-4
_GROUPS = 100_000


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    rewards, start, beta = point["rewards"], np.array(point["start_logits"]), point["beta"]
    task = tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", logits=start)

    def regressing(length: int) -> Spec:
        system = schedules.fixed(min(point["lag"], point["solves"] - 1), batches_per_publish=length)
        spec = ascent(task, system, methods.oapl(beta), 1.0, length * point["solves"])
        return spec.replace(update=chain(updates.momentum(_MOMENTUM), updates.sgd(0.7 / beta**2)))

    end = settled(lambda length: policy(run(regressing(length), seed, plant).parameters[0]), _SOLVE, 0.1 * _TOLERANCE)
    return {**arms("pi", end, _TOLERANCE), "value_bias": _bias(point, plant(regressing(_SOLVE)), policy(start))}


def _bias(point: Point, spec: Spec, chances: np.ndarray) -> Estimate:
    """Mean of r - A of the method over all groups of N samples, less that of the population."""
    rewards, N = np.array(point["rewards"]), point["samples"]
    groups = np.array(list(itertools.product(range(rewards.size), repeat=N)))

    def value(picked: np.ndarray) -> np.ndarray:
        reward = torch.from_numpy(rewards[picked])
        log_prob = torch.from_numpy(np.log(chances)[picked]).unsqueeze(-1)
        advantage = spec.method.weigh(log_prob, log_prob, rewards=reward).advantage[..., 0]
        mean: np.ndarray = (reward - advantage.reshape(reward.shape)).mean(-1).numpy()
        return mean

    estimated = float(chances[groups].prod(axis=1) @ value(groups))
    everything = oracle.population_step(spec.task, spec.method, np.array(point["start_logits"]))
    whole = float((everything.reward - everything.advantages)[0, 0, 0])
    return Estimate(estimated - whole, tolerance=1e-9)


def _reach(point: Point) -> str | None:
    groups = len(point["rewards"]) ** point["samples"]
    return None if groups <= _GROUPS else f"at most {_GROUPS} groups, which are listed; take fewer samples or arms"


_POINT = {
    "start_logits": (0.6, 0.0, -0.3),
    "rewards": (0.0, 0.5, 1.0),
    "beta": 0.5,
    "solves": 3,
    "lag": 1,
    "samples": 3,
}

trial = Trial(
    points=(_POINT,),
    more=({**_POINT, "beta": 1.0, "solves": 4, "lag": 0}, {**_POINT, "solves": 4, "lag": 2, "samples": 5}),
    measure=_measure,
    defects={
        "reference never refreshed": Defect(replaced(system=schedules.frozen(batches_per_publish=_SOLVE)), _POINT),
        "lag of one solve forgotten": Defect(replaced(system=schedules.fixed(0, batches_per_publish=_SOLVE)), _POINT),
        "mean reward for the value": Defect(with_method(advantage=advantages.group_mean()), _POINT),
    },
    effect=0.02,
    reach=_reach,
    through="loop, oracle",
)
