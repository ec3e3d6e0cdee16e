"""Claims of AReaL (arXiv 2505.24298)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AReaL")
CLAIMS = (
    _claim(
        "A staleness cap of 4 determines the mean staleness",
        "reproduced",
        "the mean staleness is {systems_stories:lognormal_mean}",
        "systems_stories",
    ),
    _claim(
        "Staleness harms naive PPO",
        "mostly",
        "naive PPO is worse than decoupled PPO in {areal:naive_worse} of {areal:places} settings over training, "
        "and in {areal:naive_end_worse} settings at the end",
        "areal",
        when="staleness harms the return during learning, but hardly at the end",
    ),
    _claim(
        "The decoupled objective tolerates a staleness bound of 8",
        "mostly",
        "its final return equals that of training on fresh data in {areal:held} of {areal:within} settings",
        "areal",
        when="fresh data are better during learning",
    ),
    _claim(
        "Asynchronous training is up to 2.77 times faster",
        "mostly",
        "it is {areal:long_4} times as fast at a staleness bound of 4, and {areal:longest_4} times as fast with "
        "longer tails",
        "areal_speed",
        when="the speed-up is smaller than the paper's unless lengths have long tails",
    ),
)
