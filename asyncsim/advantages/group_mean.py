"""Group mean: A = r - (mean reward of the group + shift)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class GroupMean(GroupBaseline):
    """A = r - (group mean + shift); see `group_mean`."""

    shift: Any = field(default=0.0, metadata=MARK)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return step.reward - (step.group_mean() + per_sample(self.shift, 3))


def group_mean(shift: Any = 0.0) -> GroupMean:
    """Mean reward of the group as baseline: A_i = r_i - (mean_j r_j + shift). Scope: group.

    Its mean gradient is (1 - 1/N) times the exact one, on-policy and with the full ratio (shift 0).

    Arguments: `shift` in units of reward, a number or one per replicate. Returns an advantage, `[R, G, N]` in units of
    reward. Raises `InputError` for a shift that is not finite, and in a run with groups of one. Source: 2503.20783
    (without the standard deviation); `shift` as in 2506.20520.

    >>> group_mean(shift=-0.1).shift
    -0.1
    """
    return GroupMean(knob("shift", shift, "give a finite shift"))
