"""Rewards from each token to the end of its episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.advantages._traces import moments, tokens, traced
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class ReturnsToGo(Baseline):
    """A_t = sum_k discount^k r_(t+k) - baseline; see `returns_to_go`."""

    discount: Any = field(default=1.0, metadata=MARK)
    baseline: str = "none"

    once = True

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        batch = step.batch
        returns = self.targets(step)
        if self.baseline == "none":
            return returns
        return torch.where(batch.mask > 0, returns - moments(step, returns)[0], torch.zeros_like(returns))

    def targets(self, step: Step) -> Tensor:
        """What a critic should say: the sums without baseline, `[R, G, N, T]`."""
        return traced(tokens(step, None), self.discount, 1.0)


def returns_to_go(discount: Any = 1.0, baseline: str = "none") -> ReturnsToGo:
    """Return from each token on: A_t = sum_k discount^k r_(t+k) - b, summed to the end of the episode.

    What follows a cut (a limit of time, the end of a segment) counts as 0. b = 0, or the mean of all sums of the step,
    which depends on the actions that it is compared with. That is a bias of order 1/tokens. Scope: token; with a
    baseline, step.

    Arguments: `discount` in [0, 1] per token, a pure number (or one per replicate); `baseline`, "none" or "batch".
    Returns an advantage, `[R, G, N, T]` in units of reward. Raises `InputError` for a discount outside its range or an
    unknown baseline. Source: Williams 1992; Sutton and Barto 2018, section 13.3.

    >>> returns_to_go(0.9).describe()
    {'advantage': 'returns_to_go', 'discount': 0.9, 'baseline': 'none'}
    """
    checks.one_of("baseline", baseline, ("none", "batch"), "say what the return is compared with")
    return ReturnsToGo(knob("discount", discount, "use 1 for plain sums", 0.0, 1.0), baseline)
