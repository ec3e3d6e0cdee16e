"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "Where generation is costly, replay saves compute",
        "mixed",
        "compute at one small rate: × {replay:bandit_held} to {replay:sparse_held}",
        when="the claim holds on all tasks at one small rate; at tuned rates, on one of three",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "mixed",
        "updates at one small rate: × {replay:bandit_held_updates} to {replay:sparse_held_updates}",
        when="replay costs few extra updates at one small rate; at tuned rates, it takes two to four times as many",
    ),
    _claim(
        "Larger buffers learn more slowly, but more stably",
        "mixed",
        "updates with a larger buffer: × {replay:sparse_slower} to {replay:bandit_slower}",
        when="learning is slower at a fixed rate; it is more stable only on the bandit",
    ),
    _claim(
        "Replay preserves entropy",
        "mixed",
        "entropy at tuned rates: × {replay:bandit_entropy} to {replay:graded_entropy}",
        when="at tuned rates, entropy is preserved on graded sequences, but lower on the bandit",
    ),
)
