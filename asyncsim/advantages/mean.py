"""Batch mean: A = r - mean reward of the whole step."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class BatchMean(Baseline):
    """A = r - mean over the step; see `mean`."""

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return step.reward - step.step_mean()


def mean() -> BatchMean:
    """Mean reward of the whole step as baseline: A_gi = r_gi - (1/G) sum_g sum_i mass_gi r_gi. Scope: step.

    On-policy with n samples in all, its mean gradient is (1 - 1/n) times the exact one. Returns an advantage,
    `[R, G, N]` in units of reward. Source: textbook.

    >>> mean().describe()
    {'advantage': 'mean'}
    """
    return BatchMean()
