"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "In-flight weight updates learn twice as fast as conventional RL",
        "mixed",
        "PipelineRL reaches a given return sooner in {pipeline_rl:sooner} of {pipeline_rl:all} settings, and at least "
        "twice as fast in {pipeline_rl:twice}",
        "pipeline_rl_speed",
        when="undecided on the bandit and against the best conventional setting",
        held="twice",
        test="PipelineRL reaches a given return at least twice as fast",
    ),
    _claim(
        "In-flight weight updates keep data close to on-policy",
        "reproduced",
        "ESS/N is {pipeline_rl:ess} with PipelineRL, and {pipeline_rl:near_ess} with conventional training at similar "
        "staleness",
        "pipeline_rl",
        when="one setting; at similar staleness, no closer than in conventional training",
        held="close",
        test="ESS/N is within {pipeline_rl:near_one} of 1, that of on-policy training",
    ),
)
