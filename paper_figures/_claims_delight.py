"""Claims of the delightful policy gradient (arXiv 2603.20521)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Delight", rebuilt=True)
CLAIMS = (
    _claim(
        "On contaminated data, DG's cosine with the true gradient grows, and that of other methods falls",
        "mixed",
        "DG {delight:dg_first} to {delight:dg_mean}, unweighted to {delight:none_mean}",
        "delight",
        when="it grows at low temperatures; exact IS keeps its own",
    ),
    _claim(
        "No sign-blind weight, exact IS included, has a growing cosine",
        "not reproduced",
        "exact IS {delight:is_batch} in batches, DG {delight:dg_batch}",
        "delight",
    ),
    _claim(
        "DG's second moment off the gradient vanishes",
        "reproduced",
        "{delight:dg_across} of uncorrected; exact IS {delight:is_across}",
        "delight",
    ),
    _claim(
        "Without a correction, DG beats exact IS",
        "mixed",
        "DG {delight:graded_dg}, IS {delight:graded_is} on graded",
        "delight_returns",
        when="at one rate; with tuned rates, only on graded sequences",
    ),
)
