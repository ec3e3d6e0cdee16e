"""Drop sequences whose geometric mean ratio leaves a band."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from asyncsim.factors._factor import Band, within
from asyncsim.step import Step


class GeometricMask(Band):
    """[low <= exp(L / T) <= high]; see `geometric_mask`."""

    def value(self, step: Step, of_tokens: Tensor) -> Tensor:
        """Mean log ratio of the sequence's tokens."""
        return step.geometric(of_tokens.double())


def geometric_mask(low: Any = 0.999, high: Any = 1.001, ratio: str = "r") -> GeometricMask:
    """Mask of sequences: c_t -> c_t [low <= s_i <= high] with s_i = exp(mean_t log rho_t), both bounds included.

    rho is r = pi/mu or h = pi_prox/mu; s_i is no importance weight, E_mu[s_i] is not 1. Ratios above and below 1 cancel
    inside a sequence, which then stays. The published band is so narrow that little lag drops every sequence: the
    gradient is then exactly 0, and `kept_tokens` of the trace says so. What is not finite is dropped.

    Arguments: `low` in [0, 1] and `high` >= 1, pure numbers (or one per replicate); `ratio`, "r" or "h". Returns a
    factor `[R, G, N, 1]`. Raises `InputError` for bounds outside their range or an unknown ratio. Source: verl,
    documentation of rollout correction, rejection by seq_mean_k1.

    >>> geometric_mask(high=1.002).describe()
    {'factor': 'geometric_mask', 'low': 0.999, 'high': 1.002, 'ratio': 'r'}
    """
    return GeometricMask(*within(low, high, ratio))
