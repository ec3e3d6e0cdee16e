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
        "cosine {gac_cosine:early_16} at staleness {gac_cosine:middle}, synchronous {gac_cosine:early_0}",
        "gac_cosine",
        when="on the chain; on 32 tokens fresh gradients align more",
        rebuilt=False,
        test="We vary staleness and task, and measure the cosine of consecutive gradients",
    ),
    _claim(
        "High alignment is the signature of stale training",
        "not reproduced",
        "synchronous correlation reaches {gac_causes:far_batch_256_0}",
        "gac_causes",
        rebuilt=False,
        stated="2603.01501/alignment",
        test="We vary batch size, reuse, momentum and staleness, and measure gradient correlation",
    ),
    _claim(
        "High alignment warns of instability",
        "mixed",
        "AUC {gac_cosine:area_cosine}; over settings {alarms:cosine_range}",
        "gac_warning",
        when="on some tasks; staleness alone ranks runs better",
        rebuilt=False,
        stated="2603.01501/early-warning",
        test="We score runs by cosine, return, ESS and staleness, and measure the AUC",
    ),
    _claim(
        "Controlling alignment keeps training stable",
        "mixed",
        "GRPO's falls drop from {gac_steps:grpo_usual} to {gac_steps:gac_usual}; plain descent's limit "
        "is {gac_projection:edge_raw}",
        "gac_steps",
        when="clear in one setting of nine; the limit is that of fresh plain descent",
        stated="2603.01501/projection",
        test="We vary staleness and task, and measure falls and the stability limit",
    ),
    _claim(
        "At a bold learning rate controlling alignment keeps training stable",
        "mixed",
        "RLOO {one_rate:rloo_bold} to {one_rate:gac_bold}; GRPO {gac_steps:grpo_bold} to {gac_steps:gac_bold}",
        "one_rate",
        when="on RLOO few remain, half of them on other tasks; on GRPO nearly all",
        test="We compare RLOO and GRPO with and without projection, and count falls",
    ),
    _claim(
        "GAC matches synchronous training at staleness 8 to 32",
        "mostly not",
        "equal in {gac_steps:even} of {gac_steps:places} settings",
        "gac_steps",
        when="GRPO alone is equal in more; over training GAC is never equal",
        test="We vary staleness and task, and compare final returns with fresh data",
    ),
    _claim(
        "GAC outperforms GRPO, M2PO and BAPO on stale data",
        "mixed",
        "wins/ties/losses {gac_steps:all_bold} on GRPO, {gac_steps:rloo_all_bold} on RLOO",
        "gac_steps",
        when="on GRPO never better than M2PO or BAPO; on RLOO better, as RLOO alone is",
        test="We compare mean returns at one bold rate",
    ),
    _claim(
        "GAC outperforms stabilizers that are tuned, too",
        "mostly",
        "rivals are worse in {rivals:gac_worse} of {rivals:gac_judged} comparisons, better in {rivals:gac_better}",
        "rivals",
        when="constant staleness; RLOO without control is equal",
        test="We put GAC on RLOO, tune every method, and compare returns",
    ),
    _claim(
        "GAC converges under bounded staleness",
        "not tested here",
        "no bound is known for GAC itself",
        "gac_bound",
        when="our bound speaks of plain descent",
        rebuilt=False,
        test="We compare plain descent with a bound of our own",
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
