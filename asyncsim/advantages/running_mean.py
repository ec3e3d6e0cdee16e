"""Running mean: the baseline is the mean reward of earlier batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Remembering, State
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class RunningMean(Remembering):
    """A = r - mean of the batches before; see `running_mean`."""

    decay: Any = field(default=0.9, metadata=MARK)

    def init(self, replicates: int) -> State:
        """Nothing was seen: a sum and a weight of 0."""
        nothing = torch.zeros((replicates, 1), dtype=torch.float64)
        return {"sum": nothing, "weight": nothing}

    def apply(self, step: Step, state: State) -> tuple[Tensor, State]:
        """Rewards less the baseline, `[R, G, N]`; the batch's mean joins the sum."""
        decay = per_sample(self.decay, 2)
        seen, weight = state["sum"], state["weight"]
        baseline = seen / torch.where(weight > 0, weight, torch.ones_like(weight))
        mean = step.batch_mean(step.reward.double()).unsqueeze(-1)
        behind = {"sum": decay * seen + mean, "weight": decay * weight + 1.0}
        return step.reward - baseline.to(step.reward.dtype).unsqueeze(-1), behind


def running_mean(decay: Any = 0.9) -> RunningMean:
    """Mean reward of earlier batches as baseline: A_i = r_i - b, b = sum_k decay^k m_(t-1-k) / sum_k decay^k.

    m_t is the mean reward of batch t, dropped groups included. The batch itself is not in b: so b does not depend on
    its samples, and the mean gradient is the exact one, on-policy and with the full ratio. In front of the first batch
    b = 0. Staleness makes b late, which costs variance alone. Scope: earlier batches of the replicate.

    Arguments: `decay` in [0, 1] per batch, a number or one per replicate; 0 is the batch before alone, 1 the mean of
    all so far. Returns an advantage, `[R, G, N]` in units of reward. Raises `InputError` for a decay outside [0, 1].
    Assumes that batches are trained once in their order. Source: Williams 1992 (reinforcement comparison).

    >>> running_mean(0.5).describe()
    {'advantage': 'running_mean', 'decay': 0.5}
    """
    return RunningMean(knob("decay", decay, "give a factor in [0, 1]", 0.0, 1.0))
