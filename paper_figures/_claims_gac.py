"""Claims of GAC (arXiv 2603.01501); our reconstruction is judged unless said otherwise."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "GAC")
_claim = partial(Claim, "GAC", rebuilt=True)
CLAIMS = (
    _claim(
        "Stale gradients align, fresh ones hardly",
        "under conditions",
        "cosine {gac_alignment:near_gaussian_8} at {gac_alignment:near} of the limit",
        "gac_alignment",
        when="constant staleness, plain descent, settled, near the stability limit",
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
        "under conditions",
        "cosine {gac_boundary:high_8} at {gac_boundary:high} of the limit",
        "gac_boundary",
        when="constant or periodic staleness",
        rebuilt=False,
        stated="2603.01501/early-warning",
    ),
    _claim(
        "Control keeps training stable",
        "under conditions",
        "largest stable step {gac_projection:edge_raw}, else {gac_projection:edge_none}",
        "gac_projection",
        when="stability limit of plain descent, far from the optimum",
        stated="2603.01501/projection",
    ),
    _claim(
        "… at one bold rate for all",
        "reproduced",
        "{one_rate:gac_bold} of runs fall; no control {one_rate:rloo_bold}",
        "one_rate",
    ),
    _claim(
        "It matches synchronous training",
        "not reproduced",
        "ends at {one_rate:gac_end}, fresh {one_rate:fresh_end}",
        "one_rate",
        when="where old data cost RLOO anything",
    ),
    _claim(
        "… and beats stabilizers",
        "under conditions",
        "{rivals:gac_worse} of {rivals:gac_judged} worse, {rivals:gac_better} better",
        "rivals",
        when="bandit, sequence ratios; token ratios win on graded sequences",
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
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
