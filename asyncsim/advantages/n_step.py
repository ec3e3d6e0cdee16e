"""Returns of n steps, completed by the critic's value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.advantages._traces import following, mask_out, recorded_value, tokens
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class NStep(Baseline):
    """A_t = sum_(k < n) discount^k r_(t+k) + discount^n V_(t+n) - V_t; see `n_step`."""

    steps: int = 5
    discount: Any = field(default=0.99, metadata=MARK)

    once = True
    outputs = ("value",)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N, T]`, 0 on masked tokens."""
        batch = step.batch
        value = recorded_value(batch, "n_step")
        return mask_out(self.targets(step) - torch.where(batch.mask > 0, value, torch.zeros_like(value)), batch.mask)

    def targets(self, step: Step) -> Tensor:
        """What the critic should say: the return of n steps, `[R, G, N, T]`."""
        trajectory = tokens(step, recorded_value(step.batch, "n_step"))
        sums = trajectory.value
        for _ in range(min(self.steps, sums.shape[-1])):
            sums = trajectory.reward + per_sample(self.discount) * following(trajectory, sums)
        return sums


def n_step(steps: int = 5, discount: Any = 0.99) -> NStep:
    """Return of n steps minus V: A_t = sum_(k < n) discount^k r_(t+k) + discount^n V_(t+n) - V_t.

    The sum stops where an episode ends. The value behind it is 0 after termination, and the critic's value of the next
    observation where a limit of time or of the segment cut it off. V is what the critic said when the action was
    chosen. Targets of the critic are A + V. Every token looks n steps ahead. Actors that stop every n steps use fewer
    rewards for the later ones: segments of n tokens with `gae(trace=1)` are those. Scope: token.

    Arguments: `steps` n >= 1, tokens; `discount` in [0, 1] per token, a pure number (or one per replicate). Returns an
    advantage, `[R, G, N, T]` in units of reward. Raises `InputError` for numbers outside their range, and in a run
    whose policy has no critic. Source: 1602.01783, section 4.

    >>> n_step(3).describe()
    {'advantage': 'n_step', 'steps': 3, 'discount': 0.99}
    """
    return NStep(
        checks.integer("steps", steps, 1, "look at least one token ahead", checks.LARGEST),
        knob("discount", discount, "use 0.99, or 1 for plain sums", 0.0, 1.0),
    )
