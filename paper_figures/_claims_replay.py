"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "When generation is costly, replay saves compute",
        "mixed",
        "at tuned rates, replay costs {replay:bandit_best}, {replay:graded_best} and {replay:sparse_best} times the "
        "compute of fresh data (bandit, graded, sparse)",
        when="two of three tasks, if generation costs enough",
        held="saves",
        test="at tuned rates and this cost of generation, replay needs less compute than fresh data",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "mostly not",
        "replay takes {replay:bandit_held_updates} to {replay:sparse_held_updates} times as many updates at one small "
        "rate, and {replay:bandit_best_updates} at the bandit's tuned rate",
        when="only at one small rate on two tasks",
        held="cheap",
        test="with this many uses of each sample, training takes at most 25 % more updates",
    ),
    _claim(
        "With larger buffers, training is slower but more stable",
        "mixed",
        "a larger buffer needs {replay:sparse_slower} to {replay:bandit_slower} times as many updates as a smaller one",
        when="slower at a small rate; not more stable at a large one, or undecided",
        held="buffers",
        test="at this number of uses, a buffer of 16 batches needs more (fewer) updates than one of 1",
    ),
    _claim(
        "Replay preserves entropy",
        "mixed",
        "at tuned rates, entropy is {replay:bandit_entropy} to {replay:graded_entropy} times that of fresh data",
        when="on graded and sparse sequences only",
        held="entropy",
        test="with a buffer of this many batches, entropy is at least nine tenths of that on fresh data",
    ),
)
