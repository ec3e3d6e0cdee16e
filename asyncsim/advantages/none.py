"""No baseline: A = r."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import Baseline, Samples


@dataclass(frozen=True)
class NoBaseline(Baseline):
    """A = r; see `none`."""

    def __call__(self, samples: Samples) -> Tensor:
        """Rewards as they are, `[R, G, N]`."""
        return samples.reward


def none() -> NoBaseline:
    """No baseline: A_i = r_i. Unbiased, with the variance of the reward's level.

    >>> none().describe()
    {'advantage': 'NoBaseline'}
    """
    return NoBaseline()
