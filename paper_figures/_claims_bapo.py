"""Claims of BAPO (arXiv 2510.18927)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "BAPO")
_claim = partial(Claim, "BAPO")
CLAIMS = (
    _claim(
        "On off-policy data the policy's entropy falls sharply over training",
        "mostly not",
        "on 64 tokens, entropy falls from {bapo_steps:start} to {bapo_steps:long_clip_h} nats with the clip, and to "
        "{bapo_steps:long_fresh_h} on fresh data",
        "bapo_steps",
        when="at equal updates",
        held="entropy",
        test="mean entropy with the clip is below that on fresh data",
    ),
    _claim(
        "At equal return, off-policy data leave less entropy than fresh data",
        "under conditions",
        "on the bandit, {bapo_entropy:bandit_clip} nats remain with the tuned clip, and {bapo_entropy:bandit_fresh} on "
        "fresh data",
        "bapo_entropy",
        when="at the clip's own tuned rate",
        held="less",
        test="at half of the possible gain, entropy with the clip is below that on fresh data",
    ),
    _claim(
        "On off-policy data training collapses",
        "mostly not",
        "on 64 tokens, the clip ends at a return of {bapo_steps:long_clip_r}, no clip at {bapo_steps:long_none_r}",
        "bapo_steps",
        when="the clip stalls at high staleness on long sequences and noisy rewards",
        held="stalled",
        test="the clip's final return is below half of that on fresh data",
    ),
    _claim(
        "Samples with negative advantage dominate the gradient",
        "under conditions",
        "positive advantages contribute {bapo_returns:positive_clip} of the gradient with the clip, and "
        "{bapo_returns:positive_none} without it",
        "bapo_balance",
        when="with PPO's clip",
        held="dominated",
        test="positive advantages contribute less than half of the gradient",
    ),
    _claim(
        "An update changes entropy by −Cov(log π, x)",
        "mostly",
        "the formula has the wrong sign for {bapo_rule:signs} of plain gradient steps",
        "bapo_rule",
        when="exact for the natural gradient",
        rebuilt=True,
        held="sign",
        test="the formula has the sign of the change along the plain gradient",
    ),
    _claim(
        "PPO's clip blocks the updates that raise entropy",
        "under conditions",
        "from a peaked start, the clip blocks {bapo_tokens:peaked_up} of these updates and {bapo_tokens:peaked_down} "
        "of others; from a uniform start, {bapo_tokens:uniform_up} and {bapo_tokens:uniform_down}",
        "bapo_tokens",
        when="plain gradient, and an initial policy that favors a wrong token",
        held="blocked",
        test="the clip blocks a larger share of the updates that raise entropy than of others",
    ),
    _claim(
        "BAPO's adaptive bounds re-balance positive and negative samples",
        "under conditions",
        "positive advantages contribute {bapo_returns:positive_bapo} of the gradient with BAPO as described, "
        "{bapo_returns:positive_released} as released, {bapo_returns:positive_clip} with the clip",
        "bapo_balance",
        when="as released; as described, in one setting",
        rebuilt=True,
        held="balanced",
        test="positive advantages contribute more of the gradient than with the clip",
    ),
    _claim(
        "BAPO preserves the policy's entropy over training",
        "mostly not",
        "at target 0.5, BAPO keeps more entropy than the clip on {bapo_steps:kept_half} of {bapo_steps:tasks} tasks, "
        "and at target 0.4 on {bapo_steps:kept_less}",
        "bapo_steps",
        when="mostly at staleness 32 with target 0.5",
        rebuilt=True,
        held="kept",
        test="mean entropy with BAPO is above that with the clip",
    ),
    _claim(
        "BAPO trains faster and more stably than the clip",
        "mixed",
        "BAPO's wins/ties/losses against the clip are {bapo_places:half_clip_bold} at the 4× rate, and "
        "{bapo_places:half_clip_best} at tuned rates",
        "bapo_places",
        when="target 0.5: in most settings on stale data; on reused batches, at the 4× rate only",
        rebuilt=True,
        held="ahead",
        also="bapo_returns",
        test="BAPO's mean return is more than {bapo_places:smallest} above the clip's",
    ),
    _claim(
        "Raising c_high raises return and entropy",
        "mixed",
        "on 64 tokens, the return rises from {bapo_bounds:c_high_return_least} to {bapo_bounds:c_high_return_most}",
        "bapo_bounds",
        when="return everywhere, entropy on the long task only",
        held="c_high",
        test="the mean return (entropy) rises from the tightest to the widest bound",
    ),
    _claim(
        "Lowering c_low lowers return and entropy",
        "mixed",
        "on 64 tokens, the return rises from {bapo_bounds:c_low_return_most} to {bapo_bounds:c_low_return_least}",
        "bapo_bounds",
        when="entropy decreases, but the return rises",
        held="c_low",
        test="the mean return (entropy) decreases from the tightest to the widest bound",
    ),
    _claim(
        "Tokens with ratios far from 1 are improbable and uncertain",
        "mixed",
        "from a peaked start, the mean probability is {bapo_tokens:peaked_prob_near} near a ratio of 1, and down to "
        "{bapo_tokens:peaked_prob_far} elsewhere",
        "bapo_tokens",
        when="mostly improbable, but seldom uncertain",
        held="far",
        test="at the ratios furthest from 1, probability is lower (entropy higher) than near 1",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Entropy rule",
        "notes",
        "figure",
        "enumerated answers; plain gradient",
        "bapo_rule",
        "",
        "the rule has the wrong sign for {bapo_rule:signs} of steps",
        claim="An update changes entropy by −Cov(log π, x)",
    ),
    _item(
        "Share of positive tokens",
        "notes",
        "figure",
        "uniform start",
        "bapo_balance",
        "",
        "positive share of the gradient: clip {bapo_returns:positive_clip}, BAPO {bapo_returns:positive_bapo}",
        claim="Samples with negative advantage dominate the gradient",
    ),
    _item(
        "Partial rollouts",
        "notes",
        "figure",
        "simulated staleness; tuned rates",
        "bapo_returns",
        "mixed",
        "BAPO beats the clip in {bapo_returns:clip_worse} of {bapo_returns:places} settings",
    ),
    _item(
        "Entropy over steps, off policy",
        "notes",
        "figure",
        "peaked start",
        "bapo_steps",
        "mostly not",
        "final entropy: clip {bapo_steps:long_clip_h}, fresh data {bapo_steps:long_fresh_h}",
    ),
    _item(
        "Training curves, compared with the clip",
        "notes",
        "figure",
        "staleness 32",
        "bapo_steps",
        "mixed",
        "final return: BAPO {bapo_steps:long_half_r}, clip {bapo_steps:long_clip_r}",
    ),
    _item(
        "Staleness",
        "notes",
        "figure",
        "staleness in updates",
        "bapo_places",
        "mixed",
        "wins/ties/losses against the clip: {bapo_places:staleness_bold} at the 4× rate, "
        "{bapo_places:staleness_best} at tuned rates",
        "AIME 24 at staleness 2, 4: clip 58.3, 54.2; BAPO 60.9, 62.0",
    ),
    _item(
        "Main table",
        "notes",
        "proxy",
        "three tasks; tuned rates",
        "bapo_places",
        "",
        "wins/ties/losses against the clip: {bapo_places:half_clip_best}",
        "AIME 24: BAPO 70.8, GRPO 69.2",
        claim="BAPO trains faster and more stably than the clip",
    ),
    _item(
        "Ratio against probability and entropy",
        "notes",
        "figure",
        "runs of the clip",
        "bapo_tokens",
        "",
        "probability of tokens: {bapo_tokens:peaked_prob_near} near a ratio of 1, {bapo_tokens:peaked_prob_far} at the "
        "minimum",
        claim="Tokens with ratios far from 1 are improbable and uncertain",
    ),
    _item(
        "Sweep of c_high and of c_low",
        "notes",
        "figure",
        "peaked start",
        "bapo_bounds",
        "mixed",
        "the return rises from {bapo_bounds:c_high_return_least} to {bapo_bounds:c_high_return_most} as "
        "c_high rises, and from {bapo_bounds:c_low_return_most} to {bapo_bounds:c_low_return_least} as c_low falls",
    ),
    _item(
        "Bounds over steps",
        "notes",
        "figure",
        "64 tokens",
        "bapo_target",
        "mixed",
        "c_high reaches {bapo_bounds:bapo_high} at target 0.4, {bapo_bounds:half_high} at target 0.5",
    ),
    _item(
        "Return against the target, its ranges and its steps",
        "notes",
        "figure",
        "one rate",
        "bapo_target",
        "mixed",
        "return: {bapo_bounds:target_04} at target 0.4, {bapo_bounds:target_05} at 0.5; it varies by "
        "{bapo_bounds:spread_high_cap} with the cap of c_high",
        "66.7 at 0.40, 66.1 at 0.50",
    ),
    _item(
        "Reuse 2, 4 and 8 times",
        "notes",
        "figure",
        "epochs on fresh batches",
        "bapo_places",
        "mixed",
        "wins/ties/losses against the clip: {bapo_places:epochs_bold} at the 4× rate, "
        "{bapo_places:epochs_best} at tuned rates",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
