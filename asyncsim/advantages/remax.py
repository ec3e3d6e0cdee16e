"""Reward of the greedy response as baseline (ReMax): A = r - r(greedy)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Remax(Baseline):
    """A = r - expected reward of the greedy response; see `remax`."""

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return step.reward - step.greedy_reward


def remax() -> Remax:
    """Reward of the greedy response as baseline: A_i = r_i - R(y*), y*_t the likeliest token. Scope: sample.

    The baseline knows nothing of the sample: unbiased on-policy and with the full ratio, for groups of one too. Here R
    is the exact expected reward of y*, where trainers draw one, and y* is that of the current policy, where an
    asynchronous trainer has that of a sampler of some version. A penalty of the task is in r and not in R. Of equally
    likely tokens y* takes the first. Tables that pay at the end have it; other tasks would have to answer a second time
    and refuse.

    Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` in a run of a task without a greedy
    response, and in `Method.weigh`. Source: 2310.10505.

    >>> remax().describe()
    {'advantage': 'remax'}
    """
    return Remax()
