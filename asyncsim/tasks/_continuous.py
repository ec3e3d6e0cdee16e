"""Shared parts of tasks with one continuous action and nothing to enumerate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim import checks, plugins
from asyncsim.batch import Batch, Draws, Outputs
from asyncsim.tasks._task import Outcomes


@dataclass(frozen=True)
class ContinuousTask:
    """One prompt, one action."""

    horizon = 1
    prompts = 1
    enumerable = False
    """Whether `outcomes` can list what happens."""

    def begin(self, prompt: Tensor) -> Tensor:
        """There is one state."""
        return torch.zeros_like(prompt)

    def step(self, state: Tensor, action: Tensor, token: int) -> tuple[Tensor, Tensor]:
        """There is one step."""
        return state, torch.zeros(state.shape, dtype=torch.bool)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Nothing, `[R, G, N]`."""
        return torch.zeros(state.shape[:3], dtype=action.dtype)

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor:
        """The reward as earned."""
        return batch.reward

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Continuous actions have no list."""
        raise checks.InputError(
            "task", plugins.name_of(self), "one whose outcomes can be listed", "use sampling='monte_carlo'"
        )

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"task": plugins.name_of(self), **vars(self)}
