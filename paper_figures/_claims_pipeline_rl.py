"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "In-flight weight updates learn twice as fast as conventional RL",
        "mixed",
        "PipelineRL is sooner in {pipeline_rl:sooner} of {pipeline_rl:all} settings, but on no task against the best "
        "conventional setting",
        "pipeline_rl_speed",
        when="it is sooner on graded and sparse tasks, and undecided on the bandit",
    ),
    _claim(
        "In-flight weight updates keep data close to on-policy",
        "mostly",
        "ESS/N is {pipeline_rl:ess} with PipelineRL, and {pipeline_rl:near_ess} with conventional training at similar "
        "staleness",
        "pipeline_rl",
        when="tested on one task; at equal staleness, conventional data are as close",
    ),
)
