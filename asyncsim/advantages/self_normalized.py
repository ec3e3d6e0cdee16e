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
    """Self-normalized importance-sampling baseline: b = sum_i omega_i r_i / sum_i omega_i. Scope: group.

    Estimates the value of the current policy (the group mean estimates that of the behavior policy); biased O(1/N).
    Raises `InputError` for groups of one.

    >>> self_normalized().describe()
    {'advantage': 'SelfNormalized'}
    """
    return SelfNormalized()
