"""Soft value: A = r - beta log mean exp(r / beta)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class SoftValue(GroupBaseline):
    """A = r minus the log of the mean exponential of the group's rewards; see `soft_value`."""

    temperature: Any = field(default=1.0, metadata=MARK)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        temperature = per_sample(self.temperature, 3)
        mass, reward = step.batch.mass.expand(step.reward.shape), step.reward
        below = torch.full((), -torch.inf, dtype=reward.dtype, device=reward.device)
        best = torch.where(mass > 0, reward, below).amax(-1, keepdim=True)
        # A group that was dropped has no mass, so no value: its samples do not count.
        best = torch.where(best.isinf(), torch.zeros_like(best), best)
        grown = torch.where(mass > 0, mass * torch.exp((reward - best) / temperature), torch.zeros_like(reward))
        total = grown.sum(-1, keepdim=True)
        return reward - best - temperature * torch.where(total > 0, total, torch.ones_like(total)).log()


def soft_value(temperature: Any = 1.0) -> SoftValue:
    """Soft value of the group as baseline: A_i = r_i - V, V = beta log sum_j mass_j exp(r_j / beta). Scope: group.

    V is the value of the best policy at a price of beta per nat of KL to the one that drew the samples, max_p E_p r -
    beta KL(p||mu). It lies between the mean (beta to infinity) and the largest reward (beta to 0). From N samples it is
    biased downward, by Jensen's inequality.

    Arguments: `temperature` beta > 0, in units of reward, a number or one per replicate. Returns an advantage, `[R, G,
    N]` in units of reward. Raises `InputError` for a temperature that is not positive, and in a run with groups of one.
    Source: 2405.19107, the soft value.

    >>> soft_value(0.5).temperature
    0.5
    """
    return SoftValue(knob("temperature", temperature, "give a positive temperature", 0.0, open_low=True))
