"""Rejection of sequences by their geometric mean ratio."""

from __future__ import annotations

from typing import Any

from asyncsim import advantages, factors
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.base import checks
from asyncsim.base.knobs import knob
from asyncsim.methods._importance import under_mask
from asyncsim.methods._method import Method


def geometric_rs(
    low: Any = 0.999,
    high: Any = 1.001,
    weight: str = "none",
    cap: Any = None,
    ratio: str = "r",
    advantage: Advantage | None = None,
    aggregator: str = "token_mean",
) -> Method:
    """Rejection by the geometric mean: c_t = w A [low <= s_i <= high] with s_i = exp(mean_t log r_t).

    w = 1 ("none"), min(r_t, cap) ("token") or min(W_i, cap) ("sequence"). s_i does not shrink or grow with the length
    as W_i does, but it is no importance weight. Under the published band a little staleness rejects every sequence: the
    gradient is then 0 and `kept_tokens` of the trace is 0. Denominators count what is rejected. See
    `factors.geometric_mask` for the mask alone.

    Arguments: `low` in [0, 1], `high` >= 1, pure numbers (or one per replicate), in print 0.999 to 1.001 and to 1.002;
    `weight`; `cap` >= 1 of that weight (default 2; none without a weight); `ratio` of the mask, "r" = pi/mu or "h" =
    pi_prox/mu; `advantage` (default group mean); `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or
    "constant". Returns a `Method` whose weight is `[R, G, N, T or 1]`. Raises `InputError` for numbers outside their
    range, unknown names, or a cap without a weight. Source: verl, documentation of rollout correction, geometric
    rejection sampling.

    >>> geometric_rs(weight="token").describe()["cap"]
    2.0
    """
    mask = factors.geometric_mask(low, high, ratio)
    checks.require(
        cap is None or weight != "none", "cap", cap, "left out without a weight", "say weight='token' or 'sequence'"
    )
    remedy = "a cap below 1 shrinks on-policy samples; use at least 1"
    inner = under_mask(weight, knob("cap", 2.0 if cap is None else cap, remedy, 1.0), ("none", "token", "sequence"))
    return Method("geometric_rs", or_default(advantage, advantages.group_mean()), inner, aggregator, factors=(mask,))
