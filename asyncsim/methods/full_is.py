"""Untruncated importance sampling: c = W A (sequence) or r A (token)."""

from __future__ import annotations

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Ratio, checked_level


def full_is(level: str = "sequence", advantage: Advantage | None = None, aggregator: str = "sequence_sum") -> Method:
    """Importance sampling without truncation.

    Level "sequence": c_it = W_i A_i, W_i = prod_t pi/mu, unbiased for outcome rewards on full support
    (`estimator/full-is`). Level "token": c_it = r_it A_i, which ignores prefix and suffix and is biased for more than
    one token. Log ratios are limited to +-20 before they are exponentiated. Arguments: `level`; `advantage` (default
    leave-one-out); `aggregator`.

    >>> full_is().describe()["level"]
    'sequence'
    """
    return Method("full_is", advantage or advantages.leave_one_out(), Ratio(checked_level(level)), aggregator)
