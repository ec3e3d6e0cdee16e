"""Claims of M2PO (arXiv 2510.01161), and its figures and tables."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "M2PO")
_claim = partial(Claim, "M2PO")
CLAIMS = (
    _claim(
        "M2PO masks 0.06 % of tokens, PPO's clip 1.22 %",
        "mostly not",
        "where the clip masks {m2po_masked:clipped} of tokens, M2PO masks at most {m2po_masked:worst}",
        "m2po_masked",
        when="averaged over training, M2PO masks fewer tokens than the clip at every rate, but seldom ten times fewer",
        held="tenth",
        test="M2PO masks at most a tenth of what the clip masks",
    ),
    _claim(
        "M2PO masks the tokens of high variance",
        "under conditions",
        "on forks, masked tokens have {m2po_entropy:forks_m2po} times the mean entropy",
        "m2po_entropy",
        when="the claim holds where tokens differ in certainty; the clip does the same",
        held="uncertain",
        test="masked tokens have more entropy than all tokens",
    ),
    _claim(
        "M2PO matches fresh training on data 256 updates old",
        "mixed",
        "M2PO matches fresh training on {m2po_tasks:matched_usual} of {m2po_tasks:tasks} tasks at the best synchronous "
        "rate, and on {m2po_tasks:matched_best} at tuned rates",
        "m2po_tasks",
        when="PPO's clip matches fresh training on at least as many tasks",
        stated="2510.01161/second-moment",
        held="m2po",
        test="the final return is less than {m2po_tasks:near} below fresh training",
    ),
    _claim(
        "Stale data are as informative as fresh data",
        "mostly",
        "training without a trust region matches fresh data on {m2po_tasks:free} of {m2po_tasks:tasks} tasks",
        "m2po_tasks",
        when="best checkpoints at tuned rates",
        held="free",
        test="the best checkpoint returns less than {m2po_tasks:near} below that of fresh training",
    ),
    _claim(
        "Without a trust region, training on stale data collapses",
        "mostly not",
        "{m2po_methods:none_fell} of runs collapse at the 4× rate on penalized tasks",
        "m2po_methods",
        when="most runs collapse at the 4× rate on two of three penalized tasks; the third is undecided",
        held="none",
        test="more than half of the runs collapse",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "The second moment bounds the divergence",
        "text",
        "figure",
        "",
        "m2po_divergence",
        "reproduced",
        "the bound holds at {m2po_tokens:held} of {m2po_tokens:points} points",
        "χ² ≤ R² M2",
    ),
    _item(
        "Matches fresh training at 256 updates",
        "text",
        "figure",
        "penalty on three; final policies",
        "m2po_tasks",
        "",
        "M2PO matches on {m2po_tasks:matched_usual} of {m2po_tasks:tasks} tasks at one rate, and on "
        "{m2po_tasks:matched_best} at tuned rates",
        "52.6 %, fresh 51.6 %",
        claim="M2PO matches fresh training on data 256 updates old",
    ),
    _item(
        "Accuracy over models, compared with GRPO",
        "text",
        "figure",
        "penalty on three; final policies",
        "m2po_tasks",
        "mixed",
        "M2PO is better than the clip on {m2po_tasks:won_usual} of {m2po_tasks:tasks} tasks at one rate, and worse on "
        "{m2po_tasks:lost_usual}",
        "up to 11.2 % better",
    ),
    _item(
        "Prosperity before collapse",
        "text",
        "figure",
        "4× rate",
        "m2po_steps",
        "mostly",
        "the return rises to {m2po_steps:top}, and then ends at {m2po_steps:none_bold}",
    ),
    _item(
        "Clipped shares, averaged over training",
        "text",
        "figure",
        "",
        "m2po_clipped",
        "",
        "the clip masks {m2po_steps:masked_clip}, M2PO {m2po_steps:masked_m2po}; where the clip masks 1.22 "
        "%, M2PO masks at most {m2po_masked:worst}",
        "1.22 and 0.06 % (32B)",
        claim="M2PO masks 0.06 % of tokens, PPO's clip 1.22 %",
    ),
    _item(
        "Which tokens are clipped most",
        "text",
        "figure",
        "kinds of bits; no KL penalty",
        "m2po_tokens",
        "reproduced",
        "clipped share: {m2po_tokens:forks_clipped} of forks, {m2po_tokens:others_clipped} of certain bits",
    ),
    _item(
        "Entropy by distance of the ratio from 1",
        "text",
        "figure",
        "few ratios far from 1",
        "m2po_tokens",
        "mixed",
        "entropy: {m2po_tokens:forks_near} near 1, {m2po_tokens:forks_peak} at the maximum, "
        "{m2po_tokens:forks_far} far from 1",
    ),
    _item(
        "Accuracy over updates, staleness 0 to 256",
        "text",
        "figure",
        "",
        "m2po_staleness",
        "mixed",
        "mean return on the stalest data: clip {m2po_staleness:clip_mean_old}, M2PO {m2po_staleness:m2po_mean_old}",
    ),
    _item(
        "Clipped share over updates, 0 and 256",
        "text",
        "figure",
        "",
        "m2po_clipped",
        "reproduced",
        "clipped share: {m2po_steps:masked_fresh} on fresh data, {m2po_steps:masked_clip} on stale data",
        "0.07 and 0.66 % (1.7B)",
    ),
    _item(
        "Reward over training",
        "text",
        "figure",
        "",
        "m2po_steps",
        "mixed",
        "final return: M2PO {m2po_steps:m2po_usual}, clip {m2po_steps:clip_usual}, fresh data {m2po_steps:fresh_usual}",
    ),
    _item(
        "CISPO, AReaL, TOPR, GPPO, GSPO",
        "text",
        "figure",
        "4× rate",
        "m2po_methods",
        "mixed",
        "runs that collapse: CISPO {m2po_methods:cispo_fell}, AReaL {m2po_methods:areal_fell}, TOPR "
        "{m2po_methods:topr_fell}, GPPO {m2po_methods:gppo_fell}, GSPO {m2po_methods:gspo_fell}",
    ),
    _item(
        "The bound τ",
        "text",
        "figure",
        "",
        "m2po_staleness",
        "mixed",
        "return: {m2po_staleness:chain_near} for bounds from half to twice 0.04, {m2po_staleness:chain_tight} for "
        "tighter and {m2po_staleness:chain_high} for the loosest",
        "0.04 everywhere",
    ),
    _item(
        "Second moment with and without the mask",
        "text",
        "figure",
        "",
        "m2po_clipped",
        "reproduced",
        "second moment: at most {m2po_steps:second_after} with the mask, {m2po_steps:second_free} without",
    ),
    _item(
        "KL over updates",
        "text",
        "figure",
        "",
        "m2po_divergence",
        "mostly not",
        "maximum KL: M2PO {m2po_tokens:kl_m2po_usual} nats, clip {m2po_tokens:kl_clip_usual} nats",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
