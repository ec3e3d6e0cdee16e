"""Claims of experience replay for language models (arXiv 2604.08706)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Replay", figure="replay", rebuilt=True)
CLAIMS = (
    _claim(
        "When generation is costly, replay saves compute",
        "mixed",
        "at one small rate, replay costs {replay:bandit_held} to {replay:sparse_held} times the compute of "
        "training on fresh data",
        when="two of three tasks, if generation costs enough; at one small rate, replay saves compute on all",
        held="saves",
        test="tuned, replay needs less compute than fresh data at this cost of generation",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "mostly not",
        "at one small rate, replay takes {replay:bandit_held_updates} to {replay:sparse_held_updates} times as many "
        "updates as training on fresh data",
        when="only at one small rate on two tasks; at tuned rates, four uses take many more updates on these two",
        held="cheap",
        test="this many uses take at most 25 % more updates",
    ),
    _claim(
        "With larger buffers, training is slower but more stable",
        "mixed",
        "a larger buffer needs {replay:sparse_slower} to {replay:bandit_slower} times as many updates as a smaller one",
        when="training is slower at a small rate; it is more stable at a large one in no setting, mostly undecided",
        held="buffers",
        test="at this number of uses, 16 batches instead of 1 need more (fewer) updates",
    ),
    _claim(
        "Replay preserves entropy",
        "mixed",
        "at tuned rates, entropy is {replay:bandit_entropy} to {replay:graded_entropy} times that of fresh data",
        when="entropy is preserved in some settings on graded and sparse sequences, and never on the bandit",
        held="entropy",
        test="with a buffer of this many batches, at least nine tenths of entropy remain",
    ),
)
