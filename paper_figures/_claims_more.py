"""Claims of the theory of delays and of the package itself."""

from __future__ import annotations

from paper_figures._claim import Claim

CLAIMS = (
    Claim(
        "delay theory",
        "Staleness sets the largest stable step",
        "reproduced",
        "{stability:boundaries} boundaries within {stability:off} %",
        "stability",
    ),
    Claim(
        "asyncsim",
        "Asynchrony raises throughput",
        "reproduced",
        "{system_spread:open_loop_quick} times on long tails",
        "system_spread",
        when="even lengths gain one half at most",
    ),
    Claim(
        "asyncsim",
        "Stabilizers beat doing nothing, all tuned",
        "mostly not",
        "{league:better} of {league:judged} better, {league:worse} worse",
        "league",
        when="tuned; at one bold rate some do",
    ),
    Claim(
        "asyncsim",
        "PPO equals stable-baselines3 on CartPole",
        "reproduced",
        "curve areas within {cartpole_parity:cut_high} %",
        "cartpole_parity",
    ),
    Claim(
        "asyncsim",
        "A recomputed anchor cannot see staleness",
        "mixed",
        "CartPole {actor_critic:cartpole_ppo_proximal} against {actor_critic:cartpole_ppo_behavior}; "
        "lake {actor_critic:lake_ppo_proximal}, {actor_critic:lake_ppo_behavior}",
        "actor_critic",
        when="a loss on CartPole, none on two tables",
    ),
    Claim(
        "asyncsim",
        "ESS falls as exp(-variance × length)",
        "reproduced",
        "ESS {pendulum_tails:ess}, predicted {pendulum_tails:law}",
        "pendulum_tails",
        when="Pendulum, early training, wide intervals",
    ),
    Claim(
        "asyncsim",
        "One update forecasts a language model's ESS",
        "under conditions",
        "{language_ess:met} of {language_ess:levels} levels of staleness within a tenth",
        "language_ess",
        when="random rewards; real ones drift faster",
    ),
    Claim(
        "asyncsim",
        "Language models learn from stale data, slower",
        "reproduced",
        "accuracy {language_learning:char_stale_held_last}, fresh {language_learning:char_held_last}",
        "language_learning",
        when="one model size, one learning rate",
    ),
    Claim(
        "asyncsim",
        "Token ratios beat sequence ratios on stale data",
        "mostly",
        "{token_ratios:worse} of {token_ratios:judged} worse with sequence ratios, {token_ratios:better} better",
        "token_ratios",
        when="equal on mostly fresh data",
    ),
)
