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
        "mixed",
        "ESS/N is {pipeline_rl:ess} with PipelineRL, and with conventional training {pipeline_rl:near_ess} at similar "
        "staleness, {pipeline_rl:last_ess} at its fastest steps",
        "pipeline_rl",
        when="one task; closer only than in conventional training with 16 or more steps per generation",
        held="close",
        test="ESS/N is higher than in conventional training, at these steps per generation",
    ),
)
