"""A fixed baseline v: A = r - v."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from asyncsim.advantages._advantage import Baseline
from asyncsim.base.knobs import MARK, knob, per_sample
from asyncsim.learning.step import Step


@dataclass(frozen=True)
class Offset(Baseline):
    """A = r - v; see `offset`."""

    v: Any = field(default=0.0, metadata=MARK)

    def __call__(self, step: Step) -> Tensor:
        """Advantages `[R, G, N]`."""
        return step.reward - per_sample(self.v, 3)


def offset(v: Any) -> Offset:
    """A fixed baseline: A_i = r_i - v. Scope: sample.

    With data from a fixed behavior policy of mean reward above v, REINFORCE converges to a projection on the simplex
    instead of the best arm (`optimum/asymre-projection`).

    Arguments: `v` in units of reward, absolute, a number or one per replicate. Returns an advantage, `[R, G, N]` in
    units of reward. Raises `InputError` for a v that is not finite. Source: 2506.20520.

    >>> offset(0.5).v
    0.5
    """
    return Offset(knob("v", v, "give a finite baseline"))
