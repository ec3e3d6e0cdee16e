"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "In-flight weight updates learn twice as fast as conventional RL",
        "mixed",
        "PipelineRL reaches a given return sooner in {pipeline_rl:sooner} of {pipeline_rl:all} settings, but on "
        "no task "
        "against the best conventional setting",
        "pipeline_rl_speed",
        when="PipelineRL is sooner on graded and sparse tasks; on the bandit, the comparison is undecided",
    ),
    _claim(
        "In-flight weight updates keep data close to on-policy",
        "mostly",
        "ESS/N is {pipeline_rl:ess} with PipelineRL, and {pipeline_rl:near_ess} with conventional training at similar "
        "staleness",
        "pipeline_rl",
        when="tested on one task; at equal staleness, data from conventional training are as close",
    ),
)
