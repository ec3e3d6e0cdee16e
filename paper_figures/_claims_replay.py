"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "Where generation is costly, replay saves compute",
        "mixed",
        "compute × {replay:bandit_held} to {replay:sparse_held}",
        when="on all tasks at one small rate; tuned, on one of three",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "mixed",
        "updates × {replay:bandit_held_updates} to {replay:sparse_held_updates}",
        when="little at one small rate; tuned, twice to four times",
    ),
    _claim(
        "Larger buffers learn more slowly, but more stably",
        "mixed",
        "updates × {replay:sparse_slower} to {replay:bandit_slower}",
        when="slower at a held rate; stabler on the bandit alone",
    ),
    _claim(
        "Replay preserves entropy",
        "mixed",
        "entropy × {replay:bandit_entropy} to {replay:graded_entropy}",
        when="tuned: kept on graded, less on the bandit",
    ),
)
