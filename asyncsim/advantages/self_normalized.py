"""Self-normalized baseline: the ratio-weighted mean reward of the group."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline, Samples, weighted_mean


@dataclass(frozen=True)
class SelfNormalized(GroupBaseline):
    """A = r - sum omega r / sum omega; see `self_normalized`."""

    def __call__(self, samples: Samples) -> Tensor:
        """Advantages `[R, G, N]`."""
        return samples.reward - weighted_mean(samples, samples.weight())


def self_normalized() -> SelfNormalized:
    """Self-normalized importance-sampling baseline: b = sum_i omega_i r_i / sum_i omega_i, A_i = r_i - b. Scope: group.

    omega_i is the weight that the loss applies. With the full ratio b estimates the value of the current policy (the
    group mean estimates that of the behavior policy); biased O(1/N).

    Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` in a run with groups of one. Source:
    textbook (self-normalized importance sampling).

    >>> self_normalized().describe()
    {'advantage': 'self_normalized'}
    """
    return SelfNormalized()
