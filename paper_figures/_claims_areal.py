"""Claims of AReaL (arXiv 2505.24298)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AReaL")
CLAIMS = (
    _claim(
        "A staleness cap of 4 determines the mean staleness",
        "under conditions",
        "the mean staleness is {systems_stories:lognormal_mean}; in another experiment, {system_frontier:few} with few "
        "rollouts in progress",
        "systems_stories",
        when="enough rollouts in progress; trainer slower than generation",
    ),
    _claim(
        "Staleness harms naive PPO",
        "mixed",
        "compared with fresh data, naive PPO is worse in {areal:naive_fresh_mean} of {areal:places} settings over "
        "training, and in {areal:naive_fresh_end} at the end",
        "areal",
        when="during learning, and at the end only at large bounds",
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
        "at a staleness bound of 4, it is {areal:mild_4}, {areal:long_4} and {areal:longest_4} times as fast with "
        "growing spread of lengths",
        "areal_speed",
        when="the paper's factor needs long tails",
    ),
)
