"""KL penalty with the value of k3 and the gradient of k2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from asyncsim.penalties._divergence import Sampled, k3_value, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class StraightThrough(Sampled):
    """c_t = -beta D_t, reported as exp(-D) - 1 + D; see `straight_through`."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """D."""
        return gap

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """exp(-D) - 1 + D."""
        return k3_value(gap)


def straight_through(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none") -> StraightThrough:
    """k3 in the report, k2 in the gradient: loss beta (k2 - sg(k2) + sg(k3)), c_t = -beta D_t, D = log pi - log other.

    Value (unbiased, low variance) and gradient (exactly grad KL(pi || other) per state) are then those of one
    divergence, which neither k2 nor k3 alone can say.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate); `to`, the other policy, "reference",
    "behavior" or "proximal"; `ratio`, "none", or "token" or "sequence" for the detached ratio to behavior. D is limited
    to +-20 in c. Returns a penalty with `score_weight` `[R, G, N, T]`; the trace has the value. Raises `InputError` for
    a negative coefficient or unknown names. Source: released code of verl (estimator names that end in a plus sign);
    gradient derived here.

    >>> straight_through(0.1).describe()["penalty"]
    'straight_through'
    """
    return StraightThrough(*settings(coefficient, to, ratio))
