"""Claims of AReaL (arXiv 2505.24298)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AReaL")
CLAIMS = (
    _claim(
        "A staleness cap of 4 fixes the mean staleness",
        "reproduced",
        "mean {systems_stories:lognormal_mean}",
        "systems_stories",
        test="We simulate long-tailed lengths, and measure staleness",
    ),
    _claim(
        "Staleness harms naive PPO",
        "mostly",
        "worse in {areal:naive_worse} of {areal:places} settings over training, in {areal:naive_end_worse} at the end",
        "areal",
        when="while it learns; at the end hardly",
        test="We vary bound and task, and compare returns with decoupled PPO",
    ),
    _claim(
        "The decoupled objective tolerates a staleness bound of 8",
        "mostly",
        "equal in {areal:held} of {areal:within} settings",
        "areal",
        when="at the end; while it learns, fresh data are better",
        test="We vary bound and task, and compare final returns with fresh data",
    ),
    _claim(
        "Asynchronous training is up to 2.77 times faster",
        "mostly",
        "{areal:long_4} times at bound 4, {areal:longest_4} for longer tails",
        "areal_speed",
        when="long-tailed lengths; others gain less",
        test="We vary bound and lengths, and measure speed relative to synchronous training",
    ),
)
