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
        when="the claim holds on all tasks at one small rate; at tuned rates, on one of three",
    ),
    _claim(
        "Replay hurts little per gradient step",
        "mixed",
        "at one small rate, replay takes {replay:bandit_held_updates} to {replay:sparse_held_updates} times as many "
        "updates as training on fresh data",
        when="at tuned rates, four uses take many more updates on two of three tasks",
    ),
    _claim(
        "With larger buffers, training is slower but more stable",
        "mixed",
        "a larger buffer needs {replay:sparse_slower} to {replay:bandit_slower} times as many updates as a smaller one",
        when="training is slower at a fixed rate, and more stable only on the bandit",
    ),
    _claim(
        "Replay preserves entropy",
        "mixed",
        "at tuned rates, entropy is {replay:bandit_entropy} to {replay:graded_entropy} times that of fresh data",
        when="entropy is preserved on graded sequences, but lower on the bandit and on sparse sequences",
    ),
)
