"""What every task offers, what one action leads to, and the enumeration of a task's outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import Weights


class Turn(NamedTuple):
    """What one action leads to; every tensor is `[R, G, N]`.

    `state`: the next world; `going`: whether the trajectory goes on, else its later tokens are masked; `reward` of this
    token, None where everything is earned at the end; `ended`: an episode ended here; `cut`: its future was cut off, so
    that a critic's value of `successor` replaces it; `successor`: the observation behind the action, before any reset,
    `[R, G, N, D]`; `finished`: return of the episode that ended here (None: what the trajectory has earned, which then
    is the episode); `broken` (bool `[R]`): the environment failed.
    """

    state: Any
    going: Tensor
    reward: Tensor | None = None
    ended: Tensor | None = None
    cut: Tensor | None = None
    successor: Tensor | None = None
    finished: Tensor | None = None
    broken: Tensor | None = None


@dataclass(frozen=True)
class Outcomes:
    """Everything that can happen to one trajectory of each prompt.

    `state`, `action`, `mask`: `[G, O, T]` (actions may carry a trailing axis; mask 1 on the policy's own tokens);
    `reward` and `chance`, `[G, O]`: the reward of the outcome, and its probability given the policy's actions, with
    that of what the environment wrote. O outcomes. `complete`: whether these are all samples that can be drawn, or only
    their mean (the quadratic without its noise). `per_token`: `reward` and `ended` of every token, `[G, O, T]`, of
    tasks that pay by token.
    """

    state: Tensor
    action: Tensor
    mask: Tensor
    reward: Tensor
    chance: Tensor
    complete: bool = True
    per_token: dict[str, Tensor] = field(default_factory=dict)


class Task(Protocol):
    """What is asked and what it earns.

    `horizon` is T; group g asks prompt g mod `prompts`. `enumerable`: whether `outcomes` can list what happens;
    `listed`: how many outcomes of a prompt it lists, and `closed`: whether `exact` needs none of them, for metrics that
    cost that much; `pays`: whether `step` gives every token its reward, else `earn` gives the trajectory's; `still`:
    whether what the policy reads stays the same over tokens; `segments`: whether a trajectory goes on where the one
    before it in its slot stopped; `tools`: whether the environment writes some tokens of a trajectory itself, so
    that `reply` says which; `moving`: whether rewards depend on the current weights; `earnings`: least and
    largest return; `optimum`: the best expected return, NaN where it is unknown. `fit` refuses a policy that does not
    fit, and returns the task fitted to it. `begin` gives the first world of each sample (`carried`: the world that the
    batch before left, for segments); `packed` and `unpacked` turn a carried world into plain containers and back, where
    `keeping` was asked before; `observe` what the policy reads of a world; `reply` the token int64 `[R, G, N]` that the
    environment writes at a position behind those `written` `[R, G, N, t]`, -1 where the policy chooses: such tokens are
    stepped like any other, are read by the policy, and have mask 0; `step` what an action leads to; `earn` what a
    trajectory has earned, by all its tokens (`mask` is 1 on the environment's too); `reward` and
    `token_rewards` are what the advantage sees (with a penalty inside, where the task has one); `outcomes` enumerates;
    `exact` is expected return and gradient `([R], [R, P])`. `solved`: whether `expected` has the return `[R]` of a
    policy, from its parameters and prepared weights, for a few percent of an update; `whole`: the task on whose
    trajectories it is estimated where not.
    """

    @property
    def horizon(self) -> int: ...

    @property
    def prompts(self) -> int: ...

    @property
    def enumerable(self) -> bool: ...

    @property
    def pays(self) -> bool: ...

    @property
    def still(self) -> bool: ...

    @property
    def segments(self) -> bool: ...

    @property
    def tools(self) -> bool: ...

    @property
    def solved(self) -> bool: ...

    @property
    def whole(self) -> Task: ...

    @property
    def listed(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    @property
    def moving(self) -> bool: ...

    @property
    def earnings(self) -> tuple[float, float]: ...

    @property
    def optimum(self) -> float: ...

    def policy(self) -> Policy: ...

    def fit(self, policy: Policy) -> Task: ...

    def begin(self, prompt: Tensor, draws: Draws, carried: Any = None) -> Any: ...

    def keeping(self) -> Task: ...

    def packed(self, world: Any) -> Any: ...

    def unpacked(self, tree: Any) -> Any: ...

    def observe(self, world: Any) -> Tensor: ...

    def reply(self, world: Any, written: Tensor, token: int, draws: Draws) -> Tensor: ...

    def step(self, world: Any, action: Tensor, token: int, draws: Draws) -> Turn: ...

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor: ...

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor: ...

    def token_rewards(self, batch: Batch, outputs: Outputs) -> Tensor: ...

    def outcomes(self, prompt: Tensor) -> Outcomes: ...

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]: ...

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


class Simple:
    """Defaults of a task whose world is what the policy reads and that pays at the end."""

    enumerable = True
    pays = False
    listed = 0
    closed = True
    still = False
    segments = False
    tools = False
    moving = False
    earnings = (-math.inf, math.inf)
    optimum = math.nan
    solved = False

    @property
    def whole(self) -> Any:
        """The task itself."""
        return self

    def fit(self, policy: Any) -> Any:
        """The task itself; `check` refuses a policy that does not fit."""
        self.check(policy)
        return self

    def check(self, policy: Any) -> None:
        """Accept any policy."""

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Any:
        """Row 0."""
        return torch.zeros_like(prompt)

    def keeping(self) -> Any:
        """The same task, whose worlds can be packed: itself."""
        return self

    def packed(self, world: Any) -> Any:
        """The world as it is: numbers, tensors and containers of them can be written to a checkpoint."""
        return world

    def unpacked(self, tree: Any) -> Any:
        """The world itself."""
        return tree

    def observe(self, world: Any) -> Tensor:
        """The world itself."""
        return world

    def reply(self, world: Any, written: Tensor, token: int, draws: Any) -> Tensor:
        """Every token is the policy's."""
        return torch.full(written.shape[:3], -1)

    def step(self, world: Any, action: Tensor, token: int, draws: Any) -> Turn:
        """One row, and on it goes."""
        return Turn(world, torch.ones(world.shape, dtype=torch.bool))

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor:
        """The reward as earned."""
        return batch.reward

    def token_rewards(self, batch: Batch, outputs: Outputs) -> Tensor:
        """The rewards of single tokens as earned, `[R, G, N, T]`."""
        return batch.rewards

    def expected(self: Any, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """J `[R]` as `exact` has it, for tasks whose closed form costs little."""
        value: Tensor = self.exact(policy, parameters)[0]
        return value
