"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "Strict on-policy sampling is suboptimal where generation is dear",
        "under conditions",
        "compute {replay:bandit_held}, {replay:graded_held} and {replay:sparse_held} of fresh data's",
        when="clear only at a small, held rate",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "under conditions",
        "updates × {replay:bandit_held_updates}, {replay:graded_held_updates}, {replay:sparse_held_updates}",
        when="a small, held rate",
    ),
    _claim(
        "Larger buffers learn more slowly, but more stably",
        "under conditions",
        "updates × {replay:bandit_slower}, {replay:graded_slower}, {replay:sparse_slower}, from 1 batch to 16",
        when="slower at a held rate; stabler on the bandit alone",
    ),
    _claim(
        "Replay preserves entropy",
        "under conditions",
        "at equal return × {replay:bandit_entropy}, {replay:graded_entropy}, {replay:sparse_entropy}",
        when="graded sequences; less on the bandit",
    ),
)
