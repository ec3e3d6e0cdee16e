"""Toy-text environments of gymnasium by their tables: segments that go on, several workers in turn, exact values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.policies.mlp import Mlp
from asyncsim.step.batch import Draws
from asyncsim.step.step import Step
from asyncsim.tasks._task import Task, Turn
from asyncsim.tasks.processes import TabularMDP


@dataclass(frozen=True)
class Linear(Mlp):
    """A linear policy and a linear critic of unit vectors, both 0 at first."""

    def initial(self, replicates: int | np.ndarray, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        """Zeros, `[R, P]`: the uniform policy."""
        return torch.zeros_like(super().initial(replicates, dtype, seed))

    def probabilities(self, parameters: Tensor) -> Tensor:
        """pi(a|s) of every state, float64 `[R, S, A]`."""
        ((weight, bias),) = self.layout.actor(parameters)
        return torch.softmax((weight + bias.unsqueeze(1)).double(), -1)


@dataclass(frozen=True)
class Walk(Task):
    """Segments of `horizon` steps through the tables of `base`, without time limit; rewards times `scale`.

    Each slot holds `workers` environments that take turns, one segment each. Return: J = E sum_t gamma^t r_t from the
    start of an episode, gamma `discount`. The policy reads unit vectors. Both tables have one first state.
    """

    base: TabularMDP
    horizon: int
    discount: float
    scale: float = 1.0
    workers: int = 1

    prompts = 1
    enumerable = False
    pays = True
    segments = True

    def policy(self) -> Linear:
        """Linear in the unit vectors."""
        return Linear(self.base.rows, self.base.actions, "categorical", (), True, False, 0.0, 0.0)

    def begin(self, prompt: Tensor, draws: Draws, carried: Tensor | None = None) -> Tensor:
        """States of all workers, int64 `[workers, R, G, N]`, the one whose turn it is in front."""
        if carried is None:
            return torch.full((self.workers, *prompt.shape), self.first)
        return carried.roll(-1, 0)

    def observe(self, world: Tensor) -> Tensor:
        """Unit vectors of the worker in front, `[R, G, N, S]`."""
        return self._units[world[0]]

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws) -> Turn:
        """One step of the worker in front; an episode that ends gives way to the next one."""
        turn = self.base.step(world[0], action, token, draws)
        assert turn.reward is not None
        over = ~turn.going
        after = torch.where(over, self.first, turn.state)
        never = torch.zeros_like(over)
        world = torch.cat([after.unsqueeze(0), world[1:]])
        return Turn(world, ~never, self.scale * turn.reward, over, never, self._units[turn.state])

    def outcomes(self, prompt: Tensor) -> Any:
        """Refused: segments have no list."""
        raise checks.InputError("task", "segments", "one whose outcomes can be listed", "use sampling='monte_carlo'")

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> Any:
        """Refused: only `value` is exact here."""
        raise checks.InputError("task", "segments", "one with an exact gradient", "use frozen_lake or cliff_walking")

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        own = {"horizon": self.horizon, "discount": self.discount, "scale": self.scale, "workers": self.workers}
        return {**self.base.describe(), **own}

    def value(self, prob: Tensor) -> Tensor:
        """J of policies `[R, S, A]`, `[R]`: (I - gamma P_pi) V = r_pi."""
        rewards, onward = self._means
        moved = torch.einsum("rsa,sax->rsx", prob, onward)
        paid = (prob * rewards).sum(-1)
        system = torch.eye(self.base.rows, dtype=torch.float64) - self.discount * moved
        return torch.linalg.solve(system, paid)[:, self.first]

    @cached_property
    def best(self) -> float:
        """J of the best policy, by value iteration."""
        rewards, onward = self._means
        value = torch.zeros(self.base.rows, dtype=torch.float64)
        for _ in range(5000):
            value = (rewards + self.discount * onward @ value).amax(-1)
        return float(value[self.first])

    @cached_property
    def _means(self) -> tuple[Tensor, Tensor]:
        """Mean reward `[S, A]`, and chances of the next state where the episode goes on, `[S, A, S]`."""
        law = self.base.law
        chance = torch.where(law.terminal, torch.zeros((), dtype=torch.float64), law.probability)
        onward = torch.zeros((*chance.shape[:2], len(chance)), dtype=torch.float64)
        return self.scale * (law.probability * law.reward).sum(-1), onward.scatter_add_(2, law.following, chance)

    @property
    def first(self) -> int:
        """State that every episode begins in."""
        return int(self.base.law.start.argmax())

    @cached_property
    def _units(self) -> Tensor:
        return torch.eye(self.base.rows, dtype=torch.float32)


def expected(step: Step) -> Tensor:
    """Exact return of the current policy, `[R]`."""
    task: Any = step.task
    policy: Any = step.policy
    return task.value(policy.probabilities(step.parameters))


RETURN = Metric("policy_return", expected, subject="policy")
