"""Leave-one-out: A = r - mean reward of the other samples of the group."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class LeaveOneOut(GroupBaseline):
    """A = N/(N-1) (r - group mean); see `leave_one_out`."""

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return (step.reward - step.group_mean()) / step.unbiased


def leave_one_out() -> LeaveOneOut:
    """Mean of the other N - 1 samples of the group as baseline: A_i = N/(N-1) (r_i - mean_j r_j). Scope: group.

    Unbiased on-policy and with the full sequence ratio. A population (enumeration) has N = infinity.

    Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` in a run with groups of one. Source:
    2402.14740.

    >>> leave_one_out().describe()
    {'advantage': 'leave_one_out'}
    """
    return LeaveOneOut()
