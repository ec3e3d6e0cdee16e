"""Claims of AReaL (arXiv 2505.24298)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AReaL")
CLAIMS = (
    _claim(
        "A cap of 4 fixes the mean staleness", "reproduced", "mean {systems_stories:lognormal_mean}", "systems_stories"
    ),
    _claim(
        "Staleness harms naive PPO",
        "mostly",
        "{areal:naive_worse} of {areal:places} worse over training, {areal:naive_end_worse} at the end",
        "areal",
        when="while it learns; at the end hardly",
    ),
    _claim(
        "The decoupled objective tolerates bound 8",
        "mostly",
        "{areal:held} of {areal:within} equal to fresh data at the end",
        "areal",
        when="at the end; while it learns, fresh data are better",
    ),
    _claim(
        "Up to 2.77 times faster",
        "mostly",
        "{areal:long_4} times at bound 4, {areal:longest_4} for longer tails",
        "areal_speed",
        when="long-tailed lengths; others gain less",
    ),
)
