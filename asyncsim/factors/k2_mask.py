"""Drop sequences, or single tokens, that have a large squared log ratio."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from asyncsim.factors._factor import Bounded, at_most


class K2Mask(Bounded):
    """[reduced l^2 / 2 <= high]; see `k2_mask`."""

    def statistic(self, of_tokens: Tensor) -> Tensor:
        """l^2 / 2."""
        return 0.5 * of_tokens * of_tokens


def k2_mask(high: Any = 2.5, reduce: str = "max", ratio: str = "r") -> K2Mask:
    """Mask by the second-order divergence: c_t -> c_t [stat <= high], stat of k2_t = l_t^2 / 2.

    l_t = log r_t, or log h_t. stat is k2_t itself ("token": tokens are dropped), or its sum, mean or maximum over the
    sequence's tokens (whole sequences are dropped). Both directions count alike: "max" with high = log(1e-4)^2 / 2 =
    42.4 is the two-sided `token_veto`. Computed in float64 on unlimited ratios; what is not finite is dropped.

    Arguments: `high` >= 0 in squared nats (or one per replicate), published 1.5 to 4; `reduce`, "token", "sum", "mean"
    or "max"; `ratio`, "r" = pi/mu or "h" = pi_prox/mu. Returns a factor `[R, G, N, T]` (token) or `[R, G, N, 1]`.
    Raises `InputError` for a negative bound or unknown names. Source: verl, documentation of rollout correction,
    rejection by k2.

    >>> k2_mask(reduce="token").describe()
    {'factor': 'k2_mask', 'high': 2.5, 'reduce': 'token', 'ratio': 'r'}
    """
    return K2Mask(*at_most(high, reduce, ratio))
