"""Plug-in optimal baseline: rewards weighted by the squared norm of the applied score vector (OPOB)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline, Samples, weighted_mean


@dataclass(frozen=True)
class Opob(GroupBaseline):
    """A = r - sum omega^2 n^2 r / sum omega^2 n^2; see `opob`."""

    def __call__(self, samples: Samples) -> Tensor:
        """Advantages `[R, G, N]`."""
        return samples.reward - weighted_mean(samples, samples.score_norm())


def opob() -> Opob:
    """Off-policy optimal baseline, plug-in: b = sum_i omega_i^2 n_i^2 r_i / sum_i omega_i^2 n_i^2, A_i = r_i - b.

    omega_i n_i is the norm of the score vector that the loss really applies to sample i (weight included exactly once,
    divided by T_i where the aggregator does). The population value minimizes E[omega^2 n^2 (r - b)^2]; from one batch
    it is biased, because sample i stands in its own baseline. Scope: group.

    Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` in a run with groups of one, or with a
    policy that has no score. Assumes a loss that is linear in A, so no clip. Source: 2602.17616.

    >>> opob().describe()
    {'advantage': 'opob'}
    """
    return Opob()
