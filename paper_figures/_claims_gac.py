"""Claims of GAC (arXiv 2603.01501); our reconstruction is judged unless said otherwise."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "GAC")
_claim = partial(Claim, "GAC", rebuilt=True)
CLAIMS = (
    _claim(
        "Stale gradients align, fresh ones hardly",
        "mixed",
        "cosine {gac_cosine:early_16} at 16, synchronous {gac_cosine:early_0}",
        "gac_cosine",
        when="on the chain; on 32 tokens fresh gradients align more",
        rebuilt=False,
    ),
    _claim(
        "Alignment is the signature of staleness",
        "not reproduced",
        "synchronous cosines reach {gac_causes:far_batch_256_0}",
        "gac_causes",
        rebuilt=False,
        stated="2603.01501/alignment",
    ),
    _claim(
        "It warns of instability",
        "mixed",
        "AUC {gac_cosine:area_cosine}; over settings {alarms:cosine_range}",
        "gac_warning",
        when="some tasks; staleness alone ranks runs better",
        rebuilt=False,
        stated="2603.01501/early-warning",
    ),
    _claim(
        "Control keeps training stable",
        "mixed",
        "falls on GRPO {gac_steps:grpo_usual} to {gac_steps:gac_usual}, limit {gac_projection:edge_raw}",
        "gac_steps",
        when="clear in one setting of nine; the limit is that of fresh plain descent",
        stated="2603.01501/projection",
    ),
    _claim(
        "… at one bold rate for all",
        "mixed",
        "RLOO {one_rate:rloo_bold} to {one_rate:gac_bold}; GRPO {gac_steps:grpo_bold} to {gac_steps:gac_bold}",
        "one_rate",
        when="on RLOO few remain, half of them on other tasks; on GRPO nearly all",
    ),
    _claim(
        "It matches synchronous training",
        "mostly not",
        "at the end in {gac_steps:even} of {gac_steps:places} settings",
        "gac_steps",
        when="GRPO without control does in more settings; over training never",
    ),
    _claim(
        "… and beats stabilizers",
        "mixed",
        "wins/ties/losses {gac_steps:all_bold}, on RLOO {gac_steps:rloo_all_bold}",
        "gac_steps",
        when="one bold rate; on GRPO it never beats M2PO or BAPO, on RLOO it does, as RLOO does",
    ),
    _claim(
        "… each tuned, on RLOO",
        "mostly",
        "{rivals:gac_worse} of {rivals:gac_judged} worse, {rivals:gac_better} better",
        "rivals",
        when="constant staleness; RLOO without control is equal",
    ),
    _claim(
        "It converges under bounded staleness",
        "not tested here",
        "no bound known for GAC itself",
        "gac_bound",
        when="the bound is ours and speaks of plain descent",
        rebuilt=False,
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Cosine of consecutive gradients over training",
        "abstract",
        "figure",
        "chain of bits, tables, Adam",
        figure="gac_cosine",
        verdict="mixed",
        ours="{gac_cosine:early_0} synchronous, {gac_cosine:early_16} at staleness 16",
    ),
    _item(
        "Cosine as early warning",
        "abstract",
        "figure",
        "RLOO, falls of half of the gain",
        figure="gac_warning",
        verdict="mixed",
        ours="AUC {gac_cosine:area_cosine}, staleness alone {gac_cosine:area_staleness}",
    ),
    _item(
        "Accuracy over staleness",
        "abstract",
        "proxy",
        "three tables, sampler-anchored GRPO",
        figure="gac_steps",
        verdict="mostly not",
        ours="{gac_steps:gac_return}, GRPO {gac_steps:grpo_return}, synchronous {gac_steps:fresh}",
    ),
    _item(
        "Beside GRPO, M2PO, BAPO",
        "notes",
        "figure",
        "as above, one bold rate",
        figure="gac_steps",
        verdict="mixed",
        ours="wins/ties/losses {gac_steps:all_bold}; on RLOO {gac_steps:rloo_all_bold}",
    ),
    _item(
        "Thresholds",
        "notes",
        "figure",
        "chain of bits, falls of GRPO at staleness 32",
        figure="gac_thresholds",
        verdict="mixed",
        ours="{gac_cosine:bare} fall; projecting {gac_cosine:projected}, skipping {gac_cosine:skip_5}",
    ),
    _item(
        "Return over steps at s = 8, 16, 32",
        "notes",
        "figure",
        "as above; drawn is the best synchronous rate",
        figure="gac_steps",
        verdict="mostly not",
        ours="beside GRPO {gac_steps:base_usual}; at a bold rate {gac_steps:base_bold}",
    ),
    _item(
        "Convergence under bounded staleness",
        "abstract",
        "proxy",
        "our bound, of plain descent",
        figure="gac_bound",
        verdict="not tested here",
        ours="{gac_bound:exceeding} of {gac_bound:points} exceed it",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
