"""Group mean, divided by it (MaxRL): A = (r - mean) / mean, so that rare successes count as in a log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base import checks
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class MaxRL(GroupBaseline):
    """A = (r - group mean) / (group mean + eps); see `maxrl`."""

    eps: float = 1e-6

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        # Relative to a reward that occurs, equal rewards are exactly 0.
        mass = step.batch.mass.expand(step.reward.shape)
        origin = step.reward.gather(-1, mass.argmax(-1, keepdim=True))
        relative = step.reward - origin
        shift = (mass * relative).sum(-1, keepdim=True)
        mean = origin + shift
        sound = mean > 0
        return torch.where(sound, (relative - shift) / torch.where(sound, mean + self.eps, torch.ones_like(mean)), 0.0)


def maxrl(eps: float = 1e-6) -> MaxRL:
    """Mean reward of the group as baseline and as scale: A_i = (r_i - m) / (m + eps), m = mean_j r_j; 0 where m <= 0.

    For rewards 0 and 1, on-policy and with eps = 0, its mean gradient is that of sum_(k=1)^(N-1) (1/k) pass@k, the
    first terms of log p in powers of 1 - p: more samples come closer to maximum likelihood. A group without success has
    no gradient. The zero of rewards matters: they should be successes, or at least not negative. Scope: group.

    Arguments: `eps` >= 0 in units of reward. Returns an advantage, `[R, G, N]`, a pure number. Raises `InputError` for
    a negative eps, and in a run with groups of one. Source: 2602.02710; SkyRL, `compute_maxrl_advantage`, for eps.

    >>> maxrl().eps
    1e-06
    """
    return MaxRL(checks.real("eps", eps, "use a small non-negative number", 0.0))
