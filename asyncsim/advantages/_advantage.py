"""What an advantage sees and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from asyncsim import checks, plugins


@dataclass(frozen=True)
class Samples:
    """Rewarded samples of one step.

    `reward`, `mass` `[R, G, N]`; `size` N or infinity; `weight`: the weight that the loss applies to the sample, `[R,
    G, N]` (1 on-policy); `score_norm()`: squared norm of the score vector that the loss applies, weight included,
    `[R, G, N]`.
    """

    reward: Tensor
    mass: Tensor
    size: float
    weight: Callable[[], Tensor]
    score_norm: Callable[[], Tensor]

    def group_mean(self) -> Tensor:
        """Mass-weighted mean reward of each group, `[R, G, 1]`."""
        return (self.mass * self.reward).sum(-1, keepdim=True)


class Advantage(Protocol):
    """A baseline rule: samples to advantages `[R, G, N]`, always detached."""

    def __call__(self, samples: Samples) -> Tensor: ...

    def check(self, samples_per_group: float) -> None: ...

    def describe(self) -> dict[str, Any]: ...


class Baseline:
    """Shared defaults of advantages: nothing to check, the class name as header."""

    def check(self, samples_per_group: float) -> None:
        """Accept any group size."""

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"advantage": plugins.name_of(self), **vars(self)}


class GroupBaseline(Baseline):
    """An advantage that compares a sample with its group."""

    def check(self, samples_per_group: float) -> None:
        """A group of one has nothing to compare with."""
        checks.require(
            samples_per_group >= 2,
            "samples_per_group",
            samples_per_group,
            "at least 2 for a group advantage",
            "raise samples_per_group, or use advantages.none() or offset()",
        )


def weighted_mean(samples: Samples, weight: Tensor) -> Tensor:
    """Group mean of the reward under extra weights, `[R, G, 1]`; the plain mean where they vanish."""
    heavy = samples.mass * weight
    total = heavy.sum(-1, keepdim=True)
    mean = (heavy * samples.reward).sum(-1, keepdim=True) / torch.where(total > 0, total, torch.ones_like(total))
    return torch.where(total > 0, mean, samples.group_mean())
