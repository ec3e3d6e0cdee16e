"""Token ratio inside a band, nothing outside it (IcePop, masked importance sampling)."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, factors
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio


def icepop(
    low: Any = 0.5,
    high: Any = 2.0,
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Masked importance sampling of tokens: c_t = r_t A [low <= rho_t <= high].

    rho is r = pi/mu, or h = pi_prox/mu, which tests staleness and engine mismatch alone (then c_t = h_t u_t A inside
    the band, without a clip on u = pi/pi_prox). This is the later form, of one ratio and a token mean; IcePop as first
    printed masks h, clips u and averages per sequence: `three_policy_tis(cap=high, aggregator="sequence_mean").replace(
    factors=(factors.token_mask(low, high, "h"),))`. Denominators count dropped tokens. See `factors.token_mask` for the
    mask alone.

    Arguments: `low` in [0, 1], `high` >= 1, pure numbers (or one per replicate), in print 0.5 to 2 and 0.5 to 5;
    `ratio`, "r" or "h"; `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean"
    or "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for bounds outside their range
    or unknown names. Source: 2512.16144, equation 1; 2510.18855 for the first form.

    >>> icepop().describe()["factors"][0]["high"]
    2.0
    """
    mask = factors.token_mask(low, high, ratio)
    return Method("icepop", or_default(advantage, advantages.group_mean()), Ratio("token"), aggregator, factors=(mask,))
