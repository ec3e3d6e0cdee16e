"""Shared parts of Markov decision processes given by tables: stepping by inverse CDF, exact values by recursion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Draws
from asyncsim.step.versions import Weights
from asyncsim.tasks._recursion import cells, tilted
from asyncsim.tasks._tabular import Penalty, TabularTask, edges
from asyncsim.tasks._task import Outcomes, Turn


class Transitions(NamedTuple):
    """What an action may lead to, K outcomes for each of S states and A actions; outcomes that are missing have 0.

    `probability`, `reward` float64, `following` int64, `terminal` bool: `[S, A, K]`; `start` float64 `[S]`:
    distribution of the first state.
    """

    probability: Tensor
    following: Tensor
    reward: Tensor
    terminal: Tensor
    start: Tensor

    @property
    def deterministic(self) -> bool:
        """Whether nothing but the actions is random."""
        return bool((self.probability[..., 0] == 1.0).all() and self.start.amax() == 1.0)


def transitions(environment: Any) -> Transitions:
    """The tables that a toy-text environment of gymnasium steps by (its `P` and `initial_state_distrib`)."""
    law = environment.P
    S, A = len(law), len(law[0])
    K = max(len(law[s][a]) for s in range(S) for a in range(A))
    probability, following, reward, terminal = (np.zeros((S, A, K)) for _ in range(4))
    for s in range(S):
        for a in range(A):
            for k, outcome in enumerate(law[s][a]):
                probability[s, a, k], following[s, a, k], reward[s, a, k], terminal[s, a, k] = outcome
    return Transitions(
        torch.from_numpy(probability),
        torch.from_numpy(following.astype(np.int64)),
        torch.from_numpy(reward),
        torch.from_numpy(terminal > 0),
        torch.as_tensor(np.asarray(environment.initial_state_distrib, dtype=np.float64)),
    )


@dataclass(frozen=True)
class TabularMDP(TabularTask):
    """One episode of at most T steps per trajectory; subclasses say which tables it steps by.

    A token is paid discount^t r_t: with the task's discount inside the rewards, `returns_to_go()` is unbiased.
    """

    discount: float
    slippery: bool

    pays = True
    closed = True
    solved = True

    @cached_property
    def law(self) -> Transitions:
        """The tables of gymnasium's environment."""
        return transitions(self.environment())

    def environment(self) -> Any:
        """gymnasium's own environment, without a time limit."""
        raise NotImplementedError

    @property
    def enumerable(self) -> bool:  # type: ignore[override]
        """Whether nothing but the actions is random."""
        return self.law.deterministic

    def begin(self, prompt: Tensor, draws: Draws | None, carried: Any = None) -> Tensor:
        """First states from their distribution, by inverse CDF; nothing is drawn where there is one."""
        if draws is None or float(self.law.start.amax()) == 1.0:
            return torch.full_like(prompt, int(self.law.start.argmax()))
        # Draw 0 of token 0 chooses the first outcome.
        uniform = draws.sibling("environment").uniform(0, 2)
        return torch.searchsorted(edges(self.law.start), uniform, right=True)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws | None) -> Turn:
        """One of the outcomes by inverse CDF, in the order of the tables; the horizon is an end like any other."""
        if draws is None or self.law.deterministic:
            outcome = torch.zeros_like(action)
        else:
            uniform = draws.sibling("environment").uniform(token, 0)
            outcome = (uniform.unsqueeze(-1) >= self._outcome_edges[world, action]).sum(-1)
        done = self.law.terminal[world, action, outcome]
        ended = torch.ones_like(done) if token + 1 == self.horizon else done
        # Discounted from the start of the episode, so that sums over later tokens are what the gradient of J weighs by.
        reward = self.discount**token * self.law.reward[world, action, outcome]
        following = self.law.following[world, action, outcome]
        return Turn(following, ~done, reward, ended, torch.zeros_like(done))

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Discounted return of finished sequences, where nothing but the actions is random."""
        return (self.law.reward[state, action, 0] * mask * self._discounts).sum(-1)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Every sequence of actions, where nothing else is random."""
        bound = "deterministic with counts, enumeration or an oracle"
        remedy = "use sampling='monte_carlo', or slippery=False"
        checks.require(self.enumerable, "task", plugins.name_of(self), bound, remedy)
        return super().outcomes(prompt)

    def values(self, policy: Policy, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """V_t(s) `[R, T, S]` and Q_t(s, a) `[R, T, S, A]` of the stationary policy, by backward recursion.

        Q_t = r + gamma P V_{t+1} (P leads to states where the episode goes on), V_t = sum_a pi Q_t, V_T = 0.
        """
        return self._values(cells(policy, parameters, self.rows, self.actions).prob)

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J = sum_s start(s) V_0(s), `[R]`, and its gradient `[R, P]`, over the T steps of an episode.

        grad J = sum_t gamma^t sum_{s, a} d_t(s) pi(a|s) (Q_t - V_t)(s, a) grad log pi(a|s). d_t is the distribution of
        the state at step t in episodes that still go on.
        """
        prob, pull = cells(policy, parameters, self.rows, self.actions)
        V, Q = self._values(prob)
        occupancy = self.law.start.expand(prob.shape[0], -1)
        value = (occupancy * V[:, 0]).sum(-1)
        weight = torch.zeros_like(prob)
        for t in range(self.horizon):
            pairs = occupancy.unsqueeze(-1) * prob
            weight += self.discount**t * pairs * (Q[:, t] - V[:, t].unsqueeze(-1))
            occupancy = pairs.flatten(1) @ self._kernel
        return value, pull(weight)

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """J `[R]`, the values of `exact` alone: V_t = r_pi + gamma P_pi V_{t+1}."""
        prob = self.chances(policy, parameters, weights)
        kernel = self.discount * self._kernel.unflatten(0, prob.shape[1:])
        following = (prob.unsqueeze(-1) * kernel).sum(2)
        earned = (prob * (self.law.probability * self.law.reward).sum(-1)).sum(-1)
        value = torch.zeros_like(earned)
        for _ in range(self.horizon):
            value = earned + (following * value.unsqueeze(1)).sum(-1)
        return (value * self.law.start).sum(-1)

    def ratio_moment(self, policy: Policy, parameters: Tensor, behavior: Tensor, power: float) -> Tensor:
        """E_mu W^power, `[R]`, W the product of pi/mu over the steps of an episode, by backward recursion."""
        then, now = (cells(policy, at, self.rows, self.actions).prob for at in (behavior, parameters))
        weights = tilted(then, now, power)
        stop = 1.0 - self._kernel.sum(-1).reshape(self.rows, self.actions)
        moment = torch.ones(weights.shape[:2], dtype=weights.dtype)
        for _ in range(self.horizon):
            moment = (weights * (stop + self._lead(moment))).sum(-1)
        return moment @ self.law.start

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {
            "task": plugins.name_of(self),
            "states": self.rows,
            "actions": self.actions,
            "horizon": self.horizon,
            "discount": self.discount,
            "slippery": self.slippery,
        }

    @cached_property
    def _kernel(self) -> Tensor:
        """P(s' and on it goes | s, a), `[S A, S]`."""
        probability = torch.where(self.law.terminal, torch.zeros((), dtype=torch.float64), self.law.probability)
        table = torch.zeros((self.rows * self.actions, self.rows), dtype=torch.float64)
        return table.scatter_add_(1, self.law.following.flatten(0, 1), probability.flatten(0, 1))

    @cached_property
    def _outcome_edges(self) -> Tensor:
        return edges(self.law.probability)

    @cached_property
    def _discounts(self) -> Tensor:
        return self.discount ** torch.arange(self.horizon, dtype=torch.float64)

    def _lead(self, after: Tensor) -> Tensor:
        """Mean over outcomes of a function of the next state `[R, S]`, `[R, S, A]`."""
        return (after @ self._kernel.T).reshape(-1, self.rows, self.actions)

    def _values(self, prob: Tensor) -> tuple[Tensor, Tensor]:
        rewards = (self.law.probability * self.law.reward).sum(-1)
        after = torch.zeros(prob.shape[:2], dtype=prob.dtype)
        V, Q = [], []
        for _ in range(self.horizon):
            Q.append(rewards + self.discount * self._lead(after))
            after = (prob * Q[-1]).sum(-1)
            V.append(after)
        return torch.stack(V[::-1], 1), torch.stack(Q[::-1], 1)


def walk(fields: int, horizon: int, slippery: bool, discount: float) -> dict[str, Any]:
    """Checked settings that tasks of one episode on a grid share, for a table of so many fields and four directions."""
    checks.integer("horizon", horizon, 1, "an episode has at least one step", checks.LARGEST)
    checks.boolean("slippery", slippery, "say whether steps may go astray")
    checks.real("discount", discount, "use 1 for none", 0.0, 1.0)
    return {
        "rows": fields,
        "actions": 4,
        "horizon": int(horizon),
        "prompts": 1,
        "rewards": "fixed",
        "deviation": 0.0,
        "penalty": Penalty(),
        "logits": None,
        "discount": float(discount),
        "slippery": bool(slippery),
    }
