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
        held="capped",
        test="mean staleness is within {systems_stories:near} % of the cap",
    ),
    _claim(
        "Staleness harms naive PPO",
        "mixed",
        "compared with fresh data, naive PPO is worse in {areal:naive_fresh_mean} of {areal:places} settings over "
        "training, and in {areal:naive_fresh_end} at the end",
        "areal",
        when="during learning, and at the end only at large bounds",
        held="naive",
        test="return is worse than on fresh data",
    ),
    _claim(
        "The decoupled objective tolerates a staleness bound of 8",
        "mixed",
        "its final return equals that of training on fresh data in {areal:held} of {areal:within} settings",
        "areal",
        when="at the end of training; during learning, fresh data are better",
        held="decoupled",
        test="return up to a bound of 8 equals that on fresh data",
    ),
    _claim(
        "Asynchronous training is up to 2.77 times faster",
        "under conditions",
        "at a staleness bound of 4, it is {areal:mild_4}, {areal:long_4} and {areal:longest_4} times as fast with "
        "growing spread of lengths",
        "areal_speed",
        when="long-tailed lengths and a staleness bound of two or more",
        held="fast",
        test="training is at least {areal:paper} times as fast as synchronously",
    ),
)
