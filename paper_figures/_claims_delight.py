"""Claims of the delightful policy gradient (arXiv 2603.20521)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Delight", figure="delight", rebuilt=True)
CLAIMS = (
    _claim(
        "Contaminated, its cosine grows, others' fall",
        "under conditions",
        "DG {delight:dg_first} to {delight:dg_mean}, unweighted to {delight:none_mean}",
        when="temperatures below the advantage, where it tends to 1",
    ),
    _claim(
        "No sign-blind weight, exact IS included, can do so",
        "not reproduced",
        "exact IS {delight:is_batch} in batches, DG {delight:dg_batch}",
    ),
    _claim(
        "DG's second moment off the gradient vanishes",
        "reproduced",
        "{delight:dg_across} of uncorrected; exact IS {delight:is_across}",
    ),
    _claim(
        "Uncorrected, it beats exact IS",
        "under conditions",
        "DG {delight:graded_dg}, IS {delight:graded_is} on graded",
        when="long sequences; worse on two other tasks",
    ),
)
