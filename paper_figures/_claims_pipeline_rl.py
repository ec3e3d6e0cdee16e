"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "In-flight weight updates learn twice as fast as conventional RL",
        "mixed",
        "sooner in {pipeline_rl:sooner} of {pipeline_rl:all} settings; beside the best setting in none",
        "pipeline_rl_speed",
        when="on graded and sparse tasks; undecided on the bandit",
        test="We vary task and steps per generation, and measure time to a return",
    ),
    _claim(
        "In-flight weight updates keep data close to on-policy",
        "mostly",
        "ESS {pipeline_rl:ess}; conventional at staleness {pipeline_rl:near_lag}: {pipeline_rl:near_ess}",
        "pipeline_rl",
        when="one task, one rate; at the same staleness conventional data are as good",
        test="We vary steps per generation, and measure ESS and staleness",
    ),
)
