"""Claims of the delightful policy gradient (arXiv 2603.20521)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Delight", rebuilt=True)
CLAIMS = (
    _claim(
        "On contaminated data, DG's cosine with the true gradient grows, and that of other methods falls",
        "mixed",
        "DG's cosine falls from {delight:dg_first} to {delight:dg_mean}, the unweighted one to {delight:none_mean}",
        "delight",
        when="DG's cosine grows only at low temperatures; exact IS keeps its cosine",
    ),
    _claim(
        "No sign-blind weight, exact IS included, has a growing cosine",
        "not reproduced",
        "in batches, exact IS has a cosine of {delight:is_batch}, DG {delight:dg_batch}",
        "delight",
    ),
    _claim(
        "DG's second moment perpendicular to the gradient vanishes",
        "reproduced",
        "{delight:dg_across} of the uncorrected one; exact IS {delight:is_across}",
        "delight",
    ),
    _claim(
        "Without a correction, DG beats exact IS",
        "mixed",
        "on graded sequences, return changes by {delight:graded_dg} with DG, {delight:graded_is} with IS",
        "delight_returns",
        when="the claim holds at one rate; with tuned rates, only on graded sequences",
    ),
)
