"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "Where generation is dear, replay saves compute",
        "under conditions",
        "compute × {replay:bandit_held} to {replay:sparse_held}",
        when="clear only at a small, held rate",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "under conditions",
        "updates × {replay:bandit_held_updates} to {replay:sparse_held_updates}",
        when="a small, held rate",
    ),
    _claim(
        "Larger buffers learn more slowly, but more stably",
        "under conditions",
        "updates × {replay:sparse_slower} to {replay:bandit_slower}",
        when="slower at a held rate; stabler on the bandit alone",
    ),
    _claim(
        "Replay preserves entropy",
        "under conditions",
        "entropy × {replay:bandit_entropy} to {replay:graded_entropy}",
        when="graded sequences; less on the bandit",
    ),
)
