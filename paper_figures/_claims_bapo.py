"""Claims of BAPO (arXiv 2510.18927)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "BAPO")
_claim = partial(Claim, "BAPO")
CLAIMS = (
    _claim(
        "Off-policy, entropy falls sharply",
        "under conditions",
        "graded: {bapo_entropy:graded_clip} nats, fresh {bapo_entropy:graded_fresh}",
        "bapo_entropy",
        when="clips at best rates; at one rate it stays higher",
    ),
    _claim(
        "… and training collapses",
        "under conditions",
        "{bapo_entropy:clip_collapsed} of runs with the clip, fresh {bapo_entropy:fresh_collapsed}",
        "bapo_entropy",
        when="noisy rewards, rates above the best",
    ),
    _claim(
        "Negative advantages dominate the gradient",
        "under conditions",
        "positive share {bapo_returns:positive_clip}, without a clip {bapo_returns:positive_none}",
        "bapo_returns",
        when="a clip; without one positives do",
    ),
    _claim(
        "Entropy changes by −Cov(log π, x)",
        "under conditions",
        "wrong sign for {bapo_rule:signs} of plain steps",
        "bapo_rule",
        when="natural gradient",
        rebuilt=True,
    ),
    _claim(
        "A clip blocks what raises entropy",
        "not reproduced",
        "{bapo_rule:up}, and {bapo_rule:down} of what lowers it",
        "bapo_rule",
    ),
    _claim(
        "BAPO re-balances the gradient",
        "under conditions",
        "positive share {bapo_returns:positive_bapo}, its code {bapo_returns:positive_released}",
        "bapo_returns",
        when="the order of its code, not the paper's",
        rebuilt=True,
    ),
    _claim(
        "… and preserves entropy",
        "under conditions",
        "more than the clip on {bapo_entropy:kept} of {bapo_entropy:tasks} tasks",
        "bapo_entropy",
        when="the bandit, at best rates",
        rebuilt=True,
    ),
    _claim(
        "BAPO trains fast and stably",
        "under conditions",
        "beats the clip at {bapo_returns:clip_worse} of {bapo_returns:places}, no clip at {bapo_returns:none_worse}",
        "bapo_returns",
        when="beside the clip, at four of six places on sequences",
        rebuilt=True,
    ),
)
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
