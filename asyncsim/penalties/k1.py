"""KL penalty k1 as a loss: c = -beta, whose expected gradient is zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.penalties._divergence import Sampled, settings
from asyncsim.step import Step


@dataclass(frozen=True)
class K1(Sampled):
    """c_t = -beta; see `k1`."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """1."""
        return torch.ones_like(gap)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """D."""
        return gap


def k1(coefficient: Any = 0.04, to: str = "reference", ratio: str = "none") -> K1:
    """Sampled log ratio D_t = log pi - log other, differentiated: c_t = -beta.

    The mean of D is the KL divergence, but d/dtheta of D at a given token is the score itself, so that the expected
    gradient under pi is -beta E[grad log pi] = 0: this loss regularizes nothing and adds noise. It is here because it
    is met in practice; k2, or D inside the reward (`reward`), have the gradient that is meant. With a ratio the
    gradient is still 0, now in expectation under the behavior policy.

    Arguments: `coefficient` beta >= 0, reward per nat (or one per replicate), 0.04 as in 2402.03300; `to`, the other
    policy, "reference", "behavior" or "proximal"; `ratio`, "none", or "token" or "sequence" for the detached ratio to
    behavior. Returns a penalty with `score_weight` `[R, G, N, T]`. Raises `InputError` for a negative coefficient or
    unknown names. Source: Schulman 2020, "Approximating KL divergence" (value); gradient derived here.

    >>> k1(0.1).describe()
    {'penalty': 'k1', 'coefficient': 0.1, 'to': 'reference', 'ratio': 'none'}
    """
    return K1(*settings(coefficient, to, ratio))
