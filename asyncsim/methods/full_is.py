"""Untruncated importance sampling: c = W A (sequence) or r A (token)."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage, or_default
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio, checked_level


def full_is(level: str = "sequence", advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Importance sampling without truncation: c_it = W_i A_i (sequence) or r_it A_i (token).

    r_it = pi/mu of one token, W_i = prod_t r_it. The sequence form is unbiased for outcome rewards on full support
    (`estimator/full-is`). The token form ignores prefix and suffix and is biased for more than one token
    (`estimator/token-is-bias`). Log ratios are limited to +-20 before they are exponentiated: where all of a step lie
    beyond, all its weights are equal.

    Arguments: `level`, "sequence" or "token"; `advantage` (default leave-one-out); `aggregator`, "sequence_sum",
    "sequence_mean", "token_mean" or "constant". Returns a `Method` whose weight is `[R, G, N, 1]` (sequence) or
    `[R, G, N, T]` (token), a pure number. Raises `InputError` for an unknown level or aggregator, or an advantage that
    is not one. Source: textbook.

    >>> full_is().describe()["level"]
    'sequence'
    """
    return Method("full_is", or_default(advantage, advantages.leave_one_out()), Ratio(checked_level(level)), aggregator)
