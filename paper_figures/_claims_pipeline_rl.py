"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "It learns twice as fast as conventional RL",
        "mixed",
        "sooner in {pipeline_rl:sooner} of {pipeline_rl:all}; beside the best none",
        "pipeline_rl_speed",
        when="on graded and sparse tasks; undecided on the bandit",
    ),
    _claim(
        "… on data that are close to on-policy",
        "mostly",
        "ESS {pipeline_rl:ess}; conventional at staleness {pipeline_rl:near_lag}: {pipeline_rl:near_ess}",
        "pipeline_rl",
        when="one task, one rate; at the same staleness conventional data are as good",
    ),
)
