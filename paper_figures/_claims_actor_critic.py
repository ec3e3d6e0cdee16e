"""Claims of A3C, V-trace and PPO (arXiv 1602.01783, 1802.01561, 1707.06347) on stale data."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "A3C")
CLAIMS = (
    _claim(
        "Parallel actor-learners stabilize training",
        "not reproduced",
        "{actor_critic:rates_one} of 16 rates work with 1 worker, {actor_critic:rates_stale} with 16",
        "actor_critic",
        when="linear networks, two small tasks",
    ),
    _claim(
        "More of them reach a score sooner",
        "reproduced",
        "{actor_critic:firm_gain} and {actor_critic:cliff_gain} times with sixteen",
        "a3c_speed",
        when="workers that do not slow each other",
    ),
    Claim(
        "IMPALA",
        "V-trace corrects staleness",
        "mixed",
        "cliff: {actor_critic:cliff_vtrace_near}, A2C {actor_critic:cliff_a2c_near}; "
        "lake: {actor_critic:lake_vtrace_near}, {actor_critic:lake_a2c_near}",
        "actor_critic",
        when="at staleness 4 on CliffWalking; alike on FrozenLake",
    ),
    Claim(
        "PPO",
        "The clip allows several epochs on a batch",
        "mixed",
        "lake {actor_critic:lake_ppo_near}, cliff {actor_critic:cliff_ppo_near}; A2C: {actor_critic:lake_a2c_near}, "
        "{actor_critic:cliff_a2c_near}",
        "actor_critic",
        when="on CliffWalking; alike on FrozenLake",
    ),
)
