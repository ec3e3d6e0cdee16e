"""What every task offers, and the enumeration of its outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from asyncsim.batch import Batch, Draws, Outputs
from asyncsim.policies._policy import Policy


@dataclass(frozen=True)
class Outcomes:
    """Everything that can happen to one trajectory of each prompt.

    `state`, `action`, `mask`: `[G, O, T]` (actions may carry a trailing axis); `reward` and `chance`, `[G, O]`: the
    reward of the outcome and its probability given the actions. O outcomes. `complete`: whether these are all samples
    that can be drawn, or only their mean (the quadratic without its noise).
    """

    state: Tensor
    action: Tensor
    mask: Tensor
    reward: Tensor
    chance: Tensor
    complete: bool = True


class Task(Protocol):
    """What is asked and what it earns.

    `horizon` is T; group g asks prompt g mod `prompts`. `check` refuses a policy that does not fit; `begin` gives the
    first state of each sample, `step` the next state and whether the trajectory goes on; `earn` draws rewards;
    `reward` is what the advantage sees (with a penalty inside, where the task has one); `outcomes` enumerates;
    `exact` is expected return and gradient `([R], [R, P])`.
    """

    horizon: int
    prompts: int

    def policy(self) -> Policy: ...

    def check(self, policy: Policy) -> None: ...

    def begin(self, prompt: Tensor) -> Tensor: ...

    def step(self, state: Tensor, action: Tensor, token: int) -> tuple[Tensor, Tensor]: ...

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor: ...

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor: ...

    def outcomes(self, prompt: Tensor) -> Outcomes: ...

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]: ...

    def describe(self) -> dict[str, Any]: ...
