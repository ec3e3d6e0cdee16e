"""Shared parts of tasks with one continuous action and nothing to enumerate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.step.batch import Draws
from asyncsim.tasks._task import Outcomes, Simple


@dataclass(frozen=True)
class ContinuousTask(Simple):
    """One prompt, one action."""

    horizon = 1
    prompts = 1
    enumerable = False
    solved = True

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Nothing, `[R, G, N]`."""
        return torch.zeros(state.shape[:3], dtype=action.dtype)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Continuous actions have no list."""
        raise checks.InputError(
            "task", plugins.name_of(self), "one whose outcomes can be listed", "use sampling='monte_carlo'"
        )

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"task": plugins.name_of(self), **vars(self)}
