"""Claims of PipelineRL (arXiv 2509.19128)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "PipelineRL")
CLAIMS = (
    _claim(
        "In-flight weight updates learn twice as fast as conventional RL",
        "mixed",
        "faster in {pipeline_rl:sooner} of {pipeline_rl:all} settings, but in none against the best "
        "conventional setting",
        "pipeline_rl_speed",
        when="faster on graded and sparse tasks; undecided on the bandit",
    ),
    _claim(
        "In-flight weight updates keep data close to on-policy",
        "mostly",
        "ESS/N is {pipeline_rl:ess}, against {pipeline_rl:near_ess} for conventional training at a staleness of "
        "{pipeline_rl:near_lag}",
        "pipeline_rl",
        when="on one task at one rate; at equal staleness, conventional data are as good",
    ),
)
