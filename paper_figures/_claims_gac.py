"""Claims of GAC (arXiv 2603.01501); our reconstruction is judged unless said otherwise."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "GAC")
_claim = partial(Claim, "GAC", rebuilt=True)
CLAIMS = (
    _claim(
        "Consecutive stale gradients align; synchronous ones are nearly orthogonal",
        "mixed",
        "the cosine is {gac_cosine:early_16} at staleness {gac_cosine:middle} and {gac_cosine:early_0} in "
        "synchronous training",
        "gac_cosine",
        when="this holds on the chain of bits; on sequences of 32 tokens, fresh gradients align more",
        rebuilt=False,
    ),
    _claim(
        "High alignment is the signature of stale training",
        "not reproduced",
        "in synchronous training, the correlation reaches {gac_causes:far_batch_256_0}",
        "gac_causes",
        rebuilt=False,
        stated="2603.01501/alignment",
    ),
    _claim(
        "High alignment warns of instability",
        "mixed",
        "the cosine has an AUC of {gac_cosine:area_cosine}; over settings, it ranges from {alarms:cosine_range}",
        "gac_warning",
        when="this holds on some tasks, but staleness alone ranks runs better",
        rebuilt=False,
        stated="2603.01501/early-warning",
    ),
    _claim(
        "Controlling alignment keeps training stable",
        "mixed",
        "GRPO's falls drop from {gac_steps:grpo_usual} to {gac_steps:gac_usual}; plain descent's limit "
        "is {gac_projection:edge_raw}",
        "gac_steps",
        when="the drop is clear in one of nine settings; the stability limit equals that of synchronous descent",
        stated="2603.01501/projection",
    ),
    _claim(
        "At four times the best synchronous rate, controlling alignment keeps training stable",
        "mixed",
        "falls drop from {one_rate:rloo_bold} to {one_rate:gac_bold} on RLOO, and from {gac_steps:grpo_bold} to "
        "{gac_steps:gac_bold} on GRPO",
        "one_rate",
        when="few falls remain on RLOO (half of them on other tasks), but nearly all remain on GRPO",
    ),
    _claim(
        "GAC matches synchronous training at staleness 8 to 32",
        "mostly not",
        "final returns are equal in {gac_steps:even} of {gac_steps:places} settings",
        "gac_steps",
        when="GRPO alone is equal in more settings; averaged over training, GAC is never equal",
    ),
    _claim(
        "GAC outperforms GRPO, M2PO and BAPO on stale data",
        "mixed",
        "wins/ties/losses are {gac_steps:all_bold} for GAC on GRPO and {gac_steps:rloo_all_bold} for GAC on RLOO",
        "gac_steps",
        when="GAC on GRPO is never better than M2PO or BAPO; GAC on RLOO is better, but so is RLOO alone",
    ),
    _claim(
        "GAC also outperforms tuned stabilizers",
        "mostly",
        "rivals are worse in {rivals:gac_worse} of {rivals:gac_judged} comparisons and better in {rivals:gac_better}",
        "rivals",
        when="staleness is constant; RLOO without GAC performs as well",
    ),
    _claim(
        "GAC converges under bounded staleness",
        "not tested here",
        "no bound is known for GAC itself",
        "gac_bound",
        when="our bound holds for plain descent only",
        rebuilt=False,
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Cosine of consecutive gradients over training",
        "abstract",
        "figure",
        "chain of bits",
        "gac_cosine",
        "mixed",
        "cosine: {gac_cosine:early_0} in synchronous training, {gac_cosine:early_16} at staleness 16",
    ),
    _item(
        "Cosine as early warning",
        "abstract",
        "figure",
        "RLOO",
        "gac_warning",
        "mixed",
        "AUC: cosine {gac_cosine:area_cosine}, staleness alone {gac_cosine:area_staleness}",
    ),
    _item(
        "Accuracy over staleness",
        "abstract",
        "proxy",
        "three tasks",
        "gac_steps",
        "mostly not",
        "mean return: GAC {gac_steps:gac_return}, GRPO {gac_steps:grpo_return}, synchronous {gac_steps:fresh}",
    ),
    _item(
        "Comparison with GRPO, M2PO and BAPO",
        "notes",
        "figure",
        "three tasks; 4× rate",
        "gac_steps",
        "mixed",
        "wins/ties/losses: GAC on GRPO {gac_steps:all_bold}, GAC on RLOO {gac_steps:rloo_all_bold}",
    ),
    _item(
        "Thresholds of the cosine",
        "notes",
        "figure",
        "chain of bits; staleness 32",
        "gac_thresholds",
        "mixed",
        "runs that fall: {gac_cosine:bare} without GAC, {gac_cosine:projected} with projection, "
        "{gac_cosine:skip_5} with skipping",
    ),
    _item(
        "Return over steps at s = 8, 16, 32",
        "notes",
        "figure",
        "three tasks",
        "gac_steps",
        "mostly not",
        "wins/ties/losses against GRPO: {gac_steps:base_usual} at the best synchronous rate, "
        "{gac_steps:base_bold} at the 4× rate",
    ),
    _item(
        "Convergence under bounded staleness",
        "abstract",
        "proxy",
        "our own bound; plain descent",
        "gac_bound",
        "not tested here",
        "{gac_bound:exceeding} of {gac_bound:points} settings exceed the bound",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
