"""Claims of TBA (arXiv 2503.18929), of the last abstract and, where it says so, of the first."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "TBA")
_claim = partial(Claim, "TBA")
CLAIMS = (
    _claim(
        "Trajectory balance learns from off-policy data",
        "under conditions",
        "at most {tba_optimum:worst} nats from its optimum",
        "tba_optimum",
        when="data that cover the optimum; slow where they seldom do",
    ),
    _claim(
        "On-policy methods are not robust to replay",
        "under conditions",
        "RLOO ends {tba_optimum:bandit_frozen_rloo} nats off, by a ratio {tba_optimum:ratio}",
        "tba_optimum",
        when="frozen data and no ratio; replay costs RLOO little return",
    ),
    _claim(
        "Accurate even as asynchrony grows",
        "under conditions",
        "at most {tba_returns:cost} behind fresh RLOO",
        "tba_returns",
        when="a small price of a nat, rewards not rare",
    ),
    _claim(
        "It beats RLOO and Dr. GRPO",
        "under conditions",
        "{tba_returns:wins} wins, {tba_returns:ties} ties, {tba_returns:losses} losses",
        "tba_returns",
        when="Dr. GRPO on one task, replayed RLOO on one; online DPO not tested",
    ),
    _claim(
        "4 times faster or more",
        "under conditions",
        "updates {tba_speed:speed_10} times; time to a target undecided",
        "tba_speed",
        when="updates where generation dominates; sooner at a target is undecided",
    ),
    _claim(
        "Recent samples help as generation scales",
        "under conditions",
        "{tba_returns:rare_recent_1}, 16 searchers: {tba_returns:rare_recent_16}",
        "tba_returns",
        when="rare rewards; the gain shrinks with searchers",
    ),
    _claim(
        "… and so does sampling by reward",
        "not tested here",
        "no buffer of the package draws by reward",
        "tba_returns",
        when="the event model knows no rewards",
    ),
    _claim(
        "Search scales where rewards are rare",
        "under conditions",
        "16 searchers over one: {tba_speed:rare_search_16}",
        "tba_speed",
        when="one rarely paid task; graded rewards gain nothing",
    ),
)
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
