"""Claims of AReaL (arXiv 2505.24298)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import OWN, Claim

_claim = partial(Claim, "AReaL")
CLAIMS = (
    _claim(
        "A staleness limit of 4 is the maximum staleness of a sample",
        "not reproduced",
        "the stalest sample of a run is {systems_stories:lognormal_largest} versions old on average",
        "systems_stories",
        when="the limit decides which samples start, not how stale they become",
        held="bounded",
        also="system_frontier",
        test="the stalest sample of a run is at most 4 versions old",
    ),
    Claim(
        OWN,
        "A staleness limit of 4 determines the mean staleness",
        "under conditions",
        "the mean staleness is {systems_stories:lognormal_mean}; in another experiment, {system_frontier:few} with few "
        "rollouts in progress",
        "systems_stories",
        when="the trainer is the bottleneck",
        subject="AReaL",
        held="capped",
        also="system_frontier",
        test="mean staleness is within {systems_stories:near} % of the limit",
    ),
    _claim(
        "Staleness harms naive PPO",
        "mixed",
        "compared with fresh data, naive PPO is worse in {areal:naive_fresh_mean} of {areal:places} settings over "
        "training, and in {areal:naive_fresh_end} at the end",
        "areal",
        when="mostly while learning; at the end only at large limits",
        held="naive",
        test="return is worse than on fresh data",
    ),
    _claim(
        "The decoupled objective tolerates a staleness limit of 8",
        "mostly",
        "its final return equals that of training on fresh data in {areal:held} of {areal:within} settings",
        "areal",
        when="final return; during learning, fresh data are better",
        held="decoupled",
        test="final return up to a limit of 8 equals that on fresh data",
    ),
    _claim(
        "Asynchronous training is up to 2.77 times faster",
        "under conditions",
        "at a staleness limit of 4, it is {areal:mild_4}, {areal:long_4} and {areal:longest_4} times as fast with "
        "growing spread of lengths",
        "areal_speed",
        when="long-tailed lengths and a staleness limit of two or more",
        held="fast",
        test="training reaches the paper's maximum, {areal:paper} times synchronous speed",
    ),
)
