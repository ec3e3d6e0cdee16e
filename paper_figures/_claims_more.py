"""Claims of the theory of delays and of the package itself."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import OWN, Claim

_theory = partial(Claim, subject="theory")
CLAIMS = (
    _theory(
        "delay theory",
        "Staleness sets the maximum stable learning rate",
        "reproduced",
        "{stability:boundaries} measured limits agree with their predictions, within {stability:bracket} %",
        "stability",
        when="quadratic objectives",
        held="limit",
        test="at this staleness, the prediction is inside the measured bracket",
    ),
    _theory(
        OWN,
        "With plain SGD, token weights raise the maximum learning rate on stale data",
        "holds",
        "the maximum rate × curvature is {phase_diagram:bandit_weighted} (bandit) and "
        "{phase_diagram:graded_weighted} (graded) with weights, and {phase_diagram:bandit_plain} without",
        "phase_diagram",
        when="sequence weights with Adam make more runs [fall](#vcpo_steps)",
        held="raised",
        test="at this staleness, the limit is higher with token weights",
    ),
    _theory(
        "several papers",
        "ESS measures what stale samples are worth",
        "mostly not",
        "ESS divided by worth is {ess_five:sequence_bandit}, {ess_five:sequence_graded} and {ess_five:sequence_sparse} "
        "on three tasks",
        "ess_five",
        when="ESS is nearly right only at staleness 1 or 2, and never on graded sequences",
        held="worth",
        test="at this staleness, sequence ESS is within a tenth of worth",
    ),
    _theory(
        OWN,
        "The first update predicts the ESS of early batches",
        "under conditions",
        "{vcpo_drift:forecast_inside} of {vcpo_drift:forecast_readings} intervals contain the prediction; with random "
        "rewards at staleness {vcpo_drift:chance_staleness}, ESS is {vcpo_drift:chance_ess} % instead of "
        "{vcpo_drift:chance_law} %",
        "vcpo_drift",
        when="rewards for correct tokens",
        held="first",
        test="at this staleness, the interval of ESS contains the prediction",
    ),
    _theory(
        OWN,
        "One update predicts a language model's ESS",
        "mixed",
        "of {language_ess:levels} intervals of ESS, {language_ess:held} contain the prediction, and {language_ess:met} "
        "reach to within a tenth of it",
        "language_ess",
        when="roughly under random rewards; not under rewards for correct answers",
        held="predicted",
        test="at this staleness, the interval of ESS contains the prediction",
    ),
    Claim(
        OWN,
        "The event model predicts live runs",
        "mostly",
        "with slow generation, {live_staleness:waits} values lie in their bands, with fast generation "
        "{live_staleness:none}",
        "live_staleness",
        subject="systems",
        when="with fast generation, more values leave their bands",
        held="inside",
        test="at least 95 % of this quantity's values lie in their 99 % bands",
    ),
    Claim(
        OWN,
        "Closed formulas predict the speed of synchronous training and of an open loop",
        "mostly",
        "{system_spread:points} mean times per batch lie within {system_spread:off} % of the formulas",
        "system_spread",
        subject="systems",
        when="with the longest tails, undecided",
        held="formula",
        test="at this spread of lengths, the mean time per batch is within 2 % of the formula",
    ),
    Claim(
        OWN,
        "A staleness limit shortens the samples that are trained on",
        "under conditions",
        "in four systems, the mean trained length is {age_cut:shortest} to {age_cut:longest} times the generated one",
        "age_cut",
        subject="systems",
        when="systems that drop stale samples",
        held="shorter",
        test="the mean trained length is more than 2 % below the generated one",
    ),
    Claim(
        OWN,
        "A recomputed anchor costs return on stale data",
        "mixed",
        "return at staleness 16 with a recomputed and a recorded anchor: CartPole {cartpole:recomputed} and "
        "{cartpole:recorded}; "
        "FrozenLake {actor_critic:lake_ppo_proximal_ends} and {actor_critic:lake_ppo_behavior_ends}",
        "actor_critic",
        when="it costs return on CartPole at staleness 8 and on FrozenLake at 4, but gains on CliffWalking at 16",
        subject="actor-critic",
        held="anchor",
        test="at this staleness, PPO returns less with a recomputed anchor",
    ),
)
