"""DAPO: PPO's clip with a higher upper bound, token mean, groups of equal rewards dropped."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods._method import Method
from asyncsim.methods._surrogates import band
from asyncsim.methods._weights import Clip


def dapo(
    low: Any = 0.2,
    high: Any = 0.28,
    anchor: str = "behavior",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Decoupled clip and dynamic sampling: A_i = (r_i - mean) / (std + 1e-6), c_it = rho_it A_i where the clip is open.

    The clip closes for A > 0 above 1 + high and for A < 0 below 1 - low. Groups whose rewards are all equal leave the
    step before its tokens are counted. Their A is 0, but otherwise they would count in the denominator. They are
    dropped, not drawn again; refilling belongs to the system that generates, where it costs staleness. No KL term.

    Arguments: `low` in [0, 1] and `high` >= 0, pure numbers (or one per replicate); `anchor` of the ratio, "behavior"
    or "proximal"; `advantage` (default group standard deviation); `aggregator`, "sequence_sum", "sequence_mean",
    "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, T]`. Raises `InputError` for bounds
    outside their range, unknown names, and in a run with groups of one. Source: 2503.14476, equation 8.

    >>> dapo().describe()["drop_equal"]
    True
    """
    return Method(
        "dapo",
        or_default(advantage, advantages.group_std()),
        Clip(*band(low, high)),
        aggregator,
        anchor=anchor,
        drop_equal=True,
        on_policy="policy gradient of the groups that are kept",
    )
