"""Length-weighted group mean (OPO): A = r - sum_j T_j r_j / sum_j T_j."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.advantages._baselines import location, others, pooled
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Opo(GroupBaseline):
    """A = r - length-weighted mean; see `opo`."""

    leave_one_out: bool = False

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        pool = pooled(step, step.lengths.to(step.reward.dtype))
        return step.reward - (others(pool) if self.leave_one_out else location(pool, "none"))


def opo(leave_one_out: bool = False) -> Opo:
    """Length-weighted mean reward of the group as baseline: b = sum_j T_j r_j / sum_j T_j, A_i = r_i - b. Scope: group.

    The length stands for the squared norm of a summed score, so this is `opob` on-policy for tokens whose scores have
    equal norms and do not add up. It ignores the ratio. Biased O(1/N) where sample i stands in its own baseline.

    Arguments: `leave_one_out`, whether sample i leaves its own baseline (unbiased on-policy and with the full sequence
    ratio). Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` where `leave_one_out` is no bool,
    and in a run with groups of one. Source: 2505.23585.

    >>> opo().leave_one_out
    False
    """
    return Opo(checks.boolean("leave_one_out", leave_one_out, "say whether a sample leaves its own baseline"))
