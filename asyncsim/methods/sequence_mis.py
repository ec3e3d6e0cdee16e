"""Sequence ratio inside a band, nothing outside it (masked importance sampling of sequences)."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, factors
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods._importance import under_mask
from asyncsim.methods._method import Method


def sequence_mis(
    low: Any = 0.5,
    high: Any = 2.0,
    weight: str = "sequence",
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Masked importance sampling of sequences: c_t = w A [low <= W_i <= high], w = W_i, or r_t under the same mask.

    W_i = prod_t r_t. The mask cuts what truncation would cap and also the weights near 0: bias
    -E_mu[W A grad log pi; W outside] with w = W_i. Denominators count dropped sequences. See `factors.sequence_mask`
    for the mask alone.

    Arguments: `low` in [0, 1], `high` >= 1, pure numbers (or one per replicate); `weight`, "sequence", "token" or
    "none"; `ratio` of the mask, "r" = pi/mu or "h" = pi_prox/mu; `advantage` (default group mean); `aggregator`,
    "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, 1]`, or
    `[R, G, N, T]` with token ratios. Raises `InputError` for bounds outside their range or unknown names. Source: verl,
    documentation of rollout correction, masked importance sampling of sequences.

    >>> sequence_mis(weight="token").describe()["level"]
    'token'
    """
    mask = factors.sequence_mask(low, high, ratio)
    inner = under_mask(weight, None, ("sequence", "token", "none"))
    return Method("sequence_mis", or_default(advantage, advantages.group_mean()), inner, aggregator, factors=(mask,))
