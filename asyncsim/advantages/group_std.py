"""Group mean and standard deviation: A = (r - mean) / (std + eps)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class GroupStd(GroupBaseline):
    """A = (r - group mean) / (std + eps); see `group_std`."""

    eps: float
    unbiased: bool = False

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        # Relative to a reward that occurs, equal rewards are exactly 0; relative to a rounded mean they would be
        # 1e-16, which the division by eps turns into an advantage.
        heaviest = step.batch.mass.expand(step.reward.shape).argmax(-1, keepdim=True)
        relative = step.reward - step.reward.gather(-1, heaviest)
        centered = relative - (step.batch.mass * relative).sum(-1, keepdim=True)
        variance = (step.batch.mass * centered**2).sum(-1, keepdim=True)
        if self.unbiased:
            variance = variance / step.unbiased
        return centered / (variance.sqrt() + self.eps)


def group_std(eps: float = 1e-6, unbiased: bool = False) -> GroupStd:
    """Standardized rewards of the group: A_i = (r_i - mean) / (std + eps), std^2 = sum_j (r_j - mean)^2 / N.

    Equal rewards give 0. Not proportional to the exact gradient across prompts: each has a factor of its own
    (`estimator/group-normalization`). With `unbiased` the sum is divided by N - 1, as released trainers do: advantages
    are sqrt(1 - 1/N) times as large (N = 2, rewards 0 and 1: +-0.71 instead of +-1). Scope: group.

    Arguments: `eps` >= 0 in units of reward; `unbiased`, whether variances are divided by N - 1. Returns an advantage,
    `[R, G, N]`, a pure number. Raises `InputError` for a negative eps, and in a run with groups of one. Source:
    2402.03300.

    >>> group_std().eps
    1e-06
    """
    return GroupStd(
        checks.real("eps", eps, "use a small non-negative number", 0.0),
        checks.boolean("unbiased", unbiased, "say whether variances are divided by N - 1"),
    )
