"""Claims of M2PO (arXiv 2510.01161), and its figures and tables."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "M2PO")
_claim = partial(Claim, "M2PO")
CLAIMS = (
    _claim(
        "It masks 0.06 % of tokens, the clip 1.22 %",
        "mixed",
        "at most {m2po_masked:worst} where the clip masks {m2po_masked:clipped}",
        "m2po_masked",
        when="fewer at every rate, seldom tenfold",
    ),
    _claim(
        "… and those of high variance",
        "mixed",
        "entropy {m2po_entropy:forks_m2po} times the mean",
        "m2po_entropy",
        when="on forks, as the clip does; elsewhere tokens are alike",
    ),
    _claim(
        "It matches fresh training at 256 updates",
        "mixed",
        "on {m2po_tasks:matched_usual} of {m2po_tasks:tasks} tasks; tuned {m2po_tasks:matched_best}",
        "m2po_tasks",
        when="tuned or not; the clip matches on as many",
        stated="2510.01161/second-moment",
    ),
    _claim(
        "Stale data informs as fresh data does",
        "mostly",
        "best checkpoint, no region: {m2po_tasks:free} of {m2po_tasks:tasks} tasks",
        "m2po_tasks",
        when="tuned, before it collapses",
    ),
    _claim(
        "… until training collapses",
        "mostly",
        "{m2po_methods:none_fell} of runs at a bold rate",
        "m2po_methods",
        when="penalized tasks, old data, a bold rate; seldom at the best synchronous one",
    ),
)
PENALTY = "A table of bits, a penalty the paper lacks, norm clip"
TABLES = "Tables for models, penalty on three, ends for best checkpoints"
ITEMS: tuple[Item, ...] = (
    _item(
        "The second moment bounds the divergence",
        "text",
        "figure",
        PENALTY,
        "m2po_divergence",
        "reproduced",
        "holds at {m2po_tokens:held} of {m2po_tokens:points} points",
        "χ² ≤ R² M2",
    ),
    _item(
        "Matches fresh training at 256 updates",
        "text",
        "figure",
        TABLES,
        "m2po_tasks",
        "mixed",
        "{m2po_tasks:matched_usual} of {m2po_tasks:tasks} tasks, tuned {m2po_tasks:matched_best}",
        "52.6 %, fresh 51.6 %",
    ),
    _item(
        "Accuracy over models, beside GRPO",
        "text",
        "figure",
        TABLES,
        "m2po_tasks",
        "mixed",
        "one rate: {m2po_tasks:won_usual} won, {m2po_tasks:lost_usual} lost of {m2po_tasks:tasks}",
        "up to 11.2 % better",
    ),
    _item(
        "Prosperity before collapse",
        "text",
        "figure",
        PENALTY,
        "m2po_steps",
        "mostly",
        "bold rate: {m2po_steps:top}, then {m2po_steps:none_bold}",
    ),
    _item(
        "Clipped shares, average of training",
        "text",
        "figure",
        PENALTY,
        "m2po_clipped",
        "mixed",
        "{m2po_steps:masked_clip} and {m2po_steps:masked_m2po}; at 1.22 %, at most {m2po_masked:worst}",
        "1.22 and 0.06 % (32B)",
    ),
    _item(
        "Which tokens are clipped most",
        "text",
        "figure",
        "Kinds of bits for words, a table, no penalty",
        "m2po_tokens",
        "reproduced",
        "forks {m2po_tokens:forks_clipped}, certain bits {m2po_tokens:others_clipped}",
    ),
    _item(
        "Entropy by distance of the ratio from 1",
        "text",
        "figure",
        "Bits for words, two kinds of token, few are far",
        "m2po_tokens",
        "mixed",
        "{m2po_tokens:forks_near}, {m2po_tokens:forks_peak}, far {m2po_tokens:forks_far}",
    ),
    _item(
        "Accuracy over updates, staleness 0 to 256",
        "text",
        "figure",
        PENALTY,
        "m2po_staleness",
        "mostly",
        "mean, oldest: clip {m2po_staleness:clip_mean_old}, M2PO {m2po_staleness:m2po_mean_old}",
    ),
    _item(
        "Clipped share over updates, 0 and 256",
        "text",
        "figure",
        PENALTY,
        "m2po_clipped",
        "reproduced",
        "{m2po_steps:masked_fresh} and {m2po_steps:masked_clip}",
        "0.07 and 0.66 % (1.7B)",
    ),
    _item(
        "Reward over training",
        "text",
        "figure",
        PENALTY,
        "m2po_steps",
        "reproduced",
        "end: M2PO {m2po_steps:m2po_usual}, clip {m2po_steps:clip_usual}",
    ),
    _item(
        "CISPO, AReaL, TOPR, GPPO, GSPO",
        "text",
        "figure",
        PENALTY,
        "m2po_methods",
        "mostly",
        "fall, bold rate: {m2po_methods:cispo_fell}, {m2po_methods:areal_fell}, {m2po_methods:topr_fell}, "
        "{m2po_methods:gppo_fell}, {m2po_methods:gspo_fell}",
    ),
    _item(
        "The bound τ",
        "text",
        "figure",
        PENALTY,
        "m2po_staleness",
        "mostly",
        "half to twice 0.04: {m2po_staleness:chain_near}; loosest {m2po_staleness:chain_high}",
        "0.04 everywhere",
    ),
    _item(
        "Second moment with and without the mask",
        "text",
        "figure",
        PENALTY,
        "m2po_clipped",
        "reproduced",
        "at most {m2po_steps:second_after}, without {m2po_steps:second_free}",
    ),
    _item(
        "KL over updates",
        "text",
        "figure",
        PENALTY,
        "m2po_divergence",
        "mostly not",
        "M2PO {m2po_tokens:kl_m2po_usual}, clip {m2po_tokens:kl_clip_usual}",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
