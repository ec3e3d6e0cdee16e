"""Generalized advantage estimation: discounted sums of the critic's errors along an episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.advantages._traces import Tokens, moments, recorded_value, tokens, traced
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Gae(Baseline):
    """A_t = sum_k (discount trace)^k delta_(t+k); see `gae`."""

    discount: Any = field(default=0.99, metadata=MARK)
    trace: Any = field(default=0.95, metadata=MARK)
    normalize: bool = False

    once = True
    outputs = ("value",)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        return self.finished(step, self.estimate(step))

    @property
    def finishes(self) -> bool:  # type: ignore[override]
        """Where it normalizes."""
        return self.normalize

    def estimate(self, step: Step) -> Tensor:
        """Advantages in units of reward."""
        return traced(self._tokens(step), self.discount, self.trace)

    def finished(self, step: Step, advantages: Tensor) -> Tensor:
        """The same, standardized over the step where that is asked for."""
        if not self.normalize:
            return advantages
        mean, deviation = moments(step, advantages)
        return torch.where(step.mask > 0, (advantages - mean) / (deviation + 1e-8), torch.zeros_like(advantages))

    def targets(self, step: Step) -> Tensor:
        """What the critic should say: the advantage, not normalized, plus the value at the draw, `[R, G, N, T]`."""
        trajectory = self._tokens(step)
        return traced(trajectory, self.discount, self.trace) + trajectory.value

    def _tokens(self, step: Step) -> Tokens:
        return tokens(step, recorded_value(step.batch, "gae"))


def gae(discount: Any = 0.99, trace: Any = 0.95, normalize: bool = False) -> Gae:
    """Advantage of each token: A_t = sum_k (discount trace)^k delta_(t+k), delta_t = r_t + discount V_(t+1) - V_t.

    V is what the critic said when the action was chosen, so that the advantage does not change between updates on one
    batch. The sum stops where an episode ends. The value behind it is 0 after termination, and the critic's value of
    the next observation where a limit of time or of the segment cut it off. `trace` 0 is the error of one step, 1 the
    return minus V. Targets of the critic are A + V. Scope: token; with `normalize`, step.

    Arguments: `discount` in [0, 1] per token and `trace` in [0, 1], pure numbers (or one per replicate); `normalize`:
    (A - mean) / (std + 1e-8) over all tokens of the step, unbiased standard deviation. Returns an advantage,
    `[R, G, N, T]` in units of reward (a pure number if normalized). Raises `InputError` for numbers outside their
    range, and in a run whose policy has no critic. Source: 1506.02438, equation 16.

    >>> gae(trace=1.0).describe()
    {'advantage': 'gae', 'discount': 0.99, 'trace': 1.0, 'normalize': False}
    """
    return Gae(
        knob("discount", discount, "use 0.99, or 1 for plain sums", 0.0, 1.0),
        knob("trace", trace, "use 0.95; 0 trusts the critic, 1 the rewards", 0.0, 1.0),
        checks.boolean("normalize", normalize, "say whether advantages are standardized"),
    )
