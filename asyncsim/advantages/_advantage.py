"""What an advantage sees and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from asyncsim import checks, plugins
from asyncsim.batch import Batch
from asyncsim.likelihoods import Likelihoods


@dataclass(frozen=True)
class Samples:
    """Rewarded samples of one step.

    `reward`, `mass` `[R, G, N]`; `size` N or infinity; `weight`: the weight that the loss applies to the sample, `[R,
    G, N]` (1 on-policy); `score_norm()`: squared norm of the score vector that the loss applies, weight included,
    `[R, G, N]`; `batch`: where the ends and values of single tokens stand;
    `rewards()`: the reward of each token, with the task's penalty, `[R, G, N, T]`; `likelihoods()`: the ratios;
    `row_norms()`: squared norm of each token's score in the space of logits, `[R, G, N, T]`; `applied()`: the weight
    that the loss applies to each token, `[R, G, N, T or 1]`; `counted`: 1 for groups that are left in the step, 0 for
    those that the method drops, `[R, G, 1]`, None where it drops none.
    """

    reward: Tensor
    mass: Tensor
    size: float
    weight: Callable[[], Tensor]
    score_norm: Callable[[], Tensor]
    batch: Batch | None = None
    rewards: Callable[[], Tensor] | None = None
    likelihoods: Callable[[], Likelihoods] | None = None
    row_norms: Callable[[], Tensor] | None = None
    applied: Callable[[], Tensor] | None = None
    counted: Tensor | None = None

    def token_rewards(self) -> Tensor:
        """Reward of every token, with the task's penalty, `[R, G, N, T]`."""
        assert self.batch is not None
        return self.batch.rewards if self.rewards is None else self.rewards()

    def group_mean(self) -> Tensor:
        """Mass-weighted mean reward of each group, `[R, G, 1]`."""
        return (self.mass * self.reward).sum(-1, keepdim=True)

    def step_mean(self) -> Tensor:
        """Mean of the group means over the groups that count, `[R, 1, 1]`."""
        found = self.group_mean()
        if self.counted is None:
            return found.mean(1, keepdim=True)
        return (self.counted * found).sum(1, keepdim=True) / self.counted.sum(1, keepdim=True).clamp(min=1.0)


class Advantage(Protocol):
    """A baseline rule: samples to advantages `[R, G, N]` or `[R, G, N, T]`, always detached.

    `once`: whether it depends on the data only, so that it is computed once for all updates on a batch; `outputs` of
    the policy that it reads among those recorded at the draw; `targets`, what a critic should say, `[R, G, N, T]`. One
    that reads outputs of the current policy names them in `reads`; its targets are then computed at every update.
    """

    once: bool
    outputs: tuple[str, ...]

    def __call__(self, samples: Samples) -> Tensor: ...

    def check(self, samples_per_group: float) -> None: ...

    def targets(self, samples: Samples) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


def or_default(advantage: Advantage | None, default: Advantage) -> Advantage:
    """The advantage, or the default of a method where none is given; what is no advantage is refused by `Method`."""
    return default if advantage is None else advantage


class Baseline:
    """Shared defaults of advantages: nothing to check, the class name as header, the return to go for a critic."""

    once = False
    outputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def targets(self, samples: Samples) -> Tensor:
        """Sum of the rewards from each token to the end of its episode, undiscounted, `[R, G, N, T]`."""
        from asyncsim.advantages._traces import tokens, traced

        return traced(tokens(samples, None), 1.0, 1.0)

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
