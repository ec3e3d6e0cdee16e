"""Self-normalized baseline: the ratio-weighted mean reward of the group."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.advantages._baselines import location, others, pooled
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class SelfNormalized(GroupBaseline):
    """A = r - sum omega r / sum omega; see `self_normalized`."""

    leave_one_out: bool = False

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        pool = pooled(step, step.sample_weight)
        return step.reward - (others(pool) if self.leave_one_out else location(pool, "none"))


def self_normalized(leave_one_out: bool = False) -> SelfNormalized:
    """Self-normalized importance-sampling baseline: b = sum_i omega_i r_i / sum_i omega_i, A_i = r_i - b. Scope: group.

    omega_i is the weight that the loss applies. With the full ratio b estimates the value of the current policy (the
    group mean estimates that of the behavior policy); biased O(1/N). Without sample i in its own baseline, the gradient
    is unbiased with the full sequence ratio, and noisy where one weight dominates.

    Arguments: `leave_one_out`, whether sample i leaves its own baseline. Returns an advantage, `[R, G, N]` in units of
    reward. Raises `InputError` where `leave_one_out` is no bool, and in a run with groups of one. Source: textbook
    (self-normalized importance sampling).

    >>> self_normalized().describe()
    {'advantage': 'self_normalized', 'leave_one_out': False}
    """
    flag = checks.boolean("leave_one_out", leave_one_out, "say whether a sample leaves its own baseline")
    return SelfNormalized(flag)
