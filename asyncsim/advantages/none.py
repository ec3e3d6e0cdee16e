"""No baseline: A = r."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class NoBaseline(Baseline):
    """A = r; see `none`."""

    def __call__(self, step: Step) -> Tensor:
        """Rewards as they are, `[R, G, N]`."""
        return step.reward


def none() -> NoBaseline:
    """No baseline: A_i = r_i. Scope: sample.

    Unbiased, with the variance that the level of the reward brings. Returns an advantage, `[R, G, N]` in units of
    reward. Source: textbook.

    >>> none().describe()
    {'advantage': 'none'}
    """
    return NoBaseline()
