"""Claims of A3C, V-trace and PPO (arXiv 1602.01783, 1802.01561, 1707.06347) on stale data."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, subject="actor-critic")
CLAIMS = (
    _claim(
        "A3C",
        "Parallel actor-learners stabilize training",
        "not reproduced",
        "with 1 worker, {actor_critic:rates_one} of 16 learning rates reach a target return; with 16 workers, "
        "{actor_critic:rates_stale} do",
        "actor_critic",
        when="tested with linear networks on two grid worlds",
        held="stable",
        test="more learning rates reach the target return with this many workers than with one",
    ),
    _claim(
        "A3C",
        "More actor-learners reach a score sooner",
        "mostly",
        "several workers finish sooner than one in {actor_critic:sooner} of {actor_critic:crowds} settings; 16 workers "
        "finish {actor_critic:firm_gain} and {actor_critic:cliff_gain} times sooner",
        "a3c_speed",
        when="two workers on CliffWalking are undecided",
        held="sooner",
        test="this many workers reach the target return sooner than one",
    ),
    _claim(
        "IMPALA",
        "V-trace corrects staleness",
        "mixed",
        "returns on CliffWalking: V-trace {actor_critic:cliff_vtrace_near}, A2C {actor_critic:cliff_a2c_near}; "
        "on FrozenLake: V-trace {actor_critic:lake_vtrace_near}, A2C {actor_critic:lake_a2c_near}",
        "actor_critic",
        when="V-trace helps on each grid world at one level of staleness; no verdict on stale CartPole data",
        held="vtrace",
        test="at this staleness, V-trace returns more than A2C",
    ),
    _claim(
        "PPO",
        "PPO, with a clip and several epochs per batch, beats A2C",
        "mixed",
        "returns on CliffWalking: PPO {actor_critic:cliff_ppo_near}, A2C {actor_critic:cliff_a2c_near}; "
        "on FrozenLake: PPO {actor_critic:lake_ppo_near}, A2C {actor_critic:lake_a2c_near}",
        "actor_critic",
        when="PPO is never worse; several epochs without a clip were not tested",
        held="epochs",
        test="at this staleness, PPO returns more than A2C",
    ),
)
