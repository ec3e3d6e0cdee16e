"""What a sample adds to the best of k (pass@k): A = mean over sets of k with it of their best less that without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base import checks
from asyncsim.learning.step import Step

_ROUNDING = 1e-12


@dataclass(frozen=True)
class PassAtK(GroupBaseline):
    """A = E [max S - max S without i] over sets S of k samples with i; see `pass_at_k`."""

    k: int = 2
    standardize: bool = False

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        ordered, order = step.reward.sort(-1)
        mass = step.batch.mass.expand(step.reward.shape).gather(-1, order)
        # Between a reward and the next one that occurs lies a gap; the best of the others is below it or above.
        gap = torch.nn.functional.pad(ordered[..., 1:] - ordered[..., :-1], (1, 0))
        below = torch.nn.functional.pad(mass.cumsum(-1)[..., :-1], (1, 0))
        gained = (gap * self._chance(below, step.peers)).cumsum(-1)
        found = torch.empty_like(gained).scatter_(-1, order, gained)
        return found / (self._deviation(step) + 1e-6) if self.standardize else found

    def check(self, samples_per_group: float) -> None:
        """A group has at least k samples."""
        super().check(samples_per_group)
        remedy = f"raise samples_per_group to {self.k}, or lower k"
        bound = f"at least k = {self.k}"
        checks.require(samples_per_group >= self.k, "samples_per_group", samples_per_group, bound, remedy)

    def _chance(self, below: Tensor, size: Any) -> Tensor:
        """Chance that the k - 1 others of a set all lie in this mass of the group, drawn without replacement.

        A group of fewer than k known rewards has no such set: its chance is that of k.
        """
        size = size if isinstance(size, (int, float)) else size.clamp(min=self.k)
        chance = torch.ones_like(below)
        for drawn in range(self.k - 1):
            left = (below - drawn / size) / (1.0 - (1 + drawn) / size)
            # Less than one sample is none.
            chance = chance * torch.where(left > _ROUNDING, left, torch.zeros_like(left))
        return chance

    def _deviation(self, step: Step) -> Tensor:
        """Unbiased standard deviation of the group's rewards, `[R, G, 1]`."""
        mean = step.group_mean()
        variance = (step.batch.mass * (step.reward - mean) ** 2).sum(-1, keepdim=True)
        return (variance / step.unbiased).sqrt()


def pass_at_k(k: int = 2, standardize: bool = False) -> PassAtK:
    """What a sample adds to the best of k: A_i = mean over sets S of k samples with i of (max S - max S without i).

    k times its mean gradient is that of the expected best of k samples (pass@k for rewards 0 and 1), exactly, on-policy
    and with the full ratio. Only samples that are better than k - 1 others count, none is negative, and equal rewards
    give 0. k = N leaves the best sample with its lead over the second. With `standardize` it is divided by the group's
    standard deviation + 1e-6, N - 1 in its denominator, as a released trainer does for k = N; then there is no such
    law. Scope: group.

    Arguments: `k` >= 2, at most the samples of a group; `standardize`, whether rewards' deviation divides. Returns an
    advantage, `[R, G, N]` in units of reward (a pure number if standardized). Raises `InputError` for a k below 2 or
    above the samples of a group, and where `standardize` is no bool. Source: 2503.19595 for k = N; 2505.15201 for any
    k; verl, `grpo_passk`, for the deviation.

    >>> pass_at_k(4).describe()
    {'advantage': 'pass_at_k', 'k': 4, 'standardize': False}
    """
    return PassAtK(
        checks.integer("k", k, 2, "give how many samples are drawn, of which the best counts", 10**4),
        checks.boolean("standardize", standardize, "say whether advantages are divided by the deviation of rewards"),
    )
