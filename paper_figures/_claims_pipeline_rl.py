"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "It learns twice as fast as conventional RL",
        "under conditions",
        "{pipeline_rl:bandit}, {pipeline_rl:graded} and {pipeline_rl:sparse} times its best on three tasks",
        "pipeline_rl",
        when="long tails, and a fixed number of steps per generation",
    ),
    _claim(
        "… on data that are close to on-policy",
        "under conditions",
        "ESS {pipeline_rl:ess}; conventional at lag {pipeline_rl:near_lag}: {pipeline_rl:near_ess}",
        "pipeline_rl",
        when="one task, one rate; at the same lag conventional data are as good",
    ),
)
