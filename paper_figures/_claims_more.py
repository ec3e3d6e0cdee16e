"""Claims of the theory of delays and of the package itself."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS = (
    Claim(
        "delay theory",
        "Staleness sets the maximum stable learning rate",
        "reproduced",
        "{stability:boundaries} measured limits lie within {stability:off} % of their predictions",
        "stability",
    ),
    Claim(
        "asyncsim",
        "Asynchrony raises throughput",
        "under conditions",
        "at the widest spread, throughput is {system_spread:one_step_off_quick} (one step off) to "
        "{system_spread:open_loop_quick} (no limit) times synchronous throughput",
        "system_spread",
        when="the trainer has GPUs of its own",
    ),
    Claim(
        "asyncsim",
        "Stabilizers beat plain RLOO when all are tuned",
        "mostly not",
        "stabilizers win {league:better} of {league:judged} comparisons, and lose {league:worse}",
        "league",
        when="at the 4× rate, some stabilizers beat plain RLOO",
    ),
    Claim(
        "asyncsim",
        "On CartPole, PPO learns as fast as in stable-baselines3",
        "reproduced",
        "areas under the learning curves differ by {cartpole_parity:low} to {cartpole_parity:cut_high} %",
        "cartpole_parity",
    ),
    Claim(
        "asyncsim",
        "A recomputed anchor cannot see staleness",
        "mixed",
        "return with a recomputed and a recorded anchor: "
        "CartPole {actor_critic:cartpole_ppo_proximal} and {actor_critic:cartpole_ppo_behavior}; "
        "FrozenLake {actor_critic:lake_ppo_proximal} and {actor_critic:lake_ppo_behavior}",
        "actor_critic",
        when="the recomputed anchor costs return on CartPole, but not on two grid worlds",
    ),
    Claim(
        "asyncsim",
        "ESS decreases as exp(-variance × length)",
        "reproduced",
        "ESS is {pendulum_tails:ess}, and the prediction is {pendulum_tails:law}",
        "pendulum_tails",
        when="tested on Pendulum early in training, with wide intervals",
    ),
    Claim(
        "asyncsim",
        "One update predicts a language model's ESS",
        "under conditions",
        "of {language_ess:levels} intervals of ESS, {language_ess:held} contain the prediction, and {language_ess:met} "
        "come within a tenth of it",
        "language_ess",
        when="rewards are random; with rewards for correct answers, the policy drifts faster",
    ),
    Claim(
        "asyncsim",
        "Language models learn from stale data, but more slowly",
        "reproduced",
        "the accuracy is {language_learning:char_stale_held_last} on stale data and {language_learning:char_held_last} "
        "on fresh data",
        "language_learning",
        when="tested with one model size and one learning rate",
    ),
    Claim(
        "asyncsim",
        "Token ratios beat sequence ratios on stale data",
        "mostly",
        "sequence ratios lose {token_ratios:worse} of {token_ratios:judged} comparisons, and win {token_ratios:better}",
        "token_ratios",
        when="on mostly fresh data, both are equal",
    ),
)
