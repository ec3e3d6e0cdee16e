"""Drop sequences, or single tokens, that have a large sampled divergence of behavior from current policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from asyncsim.factors._factor import Bounded, at_most


class K3Mask(Bounded):
    """[reduced e^l - 1 - l <= high]; see `k3_mask`."""

    def statistic(self, of_tokens: Tensor) -> Tensor:
        """e^l - 1 - l."""
        return torch.expm1(of_tokens) - of_tokens


def k3_mask(high: Any = 0.01, reduce: str = "mean", ratio: str = "r") -> K3Mask:
    """Mask by a sampled divergence: c_t -> c_t [stat <= high], stat of k3_t = e^l_t - 1 - l_t >= 0.

    l_t = log r_t, or log h_t. E_mu[k3_t] = KL(mu, pi) in the token's state, since E_mu[e^l] = 1. A ratio far above 1
    counts more than its inverse (r = 4: 1.61, r = 1/4: 0.64). stat is k3_t itself ("token": tokens are dropped), or its
    sum, mean or maximum over the sequence's tokens (whole sequences are dropped). Computed in float64 on unlimited
    ratios; what is not finite is dropped.

    Arguments: `high` >= 0 in nats (or one per replicate); `reduce`, "token", "sum", "mean" or "max"; `ratio`, "r" =
    pi/mu or "h" = pi_prox/mu. Returns a factor `[R, G, N, T]` (token) or `[R, G, N, 1]`. Raises `InputError` for a
    negative bound or unknown names. Source: verl, documentation of rollout correction, rejection by k3.

    >>> k3_mask().describe()
    {'factor': 'k3_mask', 'high': 0.01, 'reduce': 'mean', 'ratio': 'r'}
    """
    return K3Mask(*at_most(high, reduce, ratio))
