"""Claims of the delightful policy gradient (arXiv 2603.20521)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "Delight", rebuilt=True)
CLAIMS = (
    _claim(
        "On contaminated data, DG's cosine with the exact gradient grows, while that of other methods decreases",
        "mixed",
        "DG's cosine decreases from {delight:dg_first} to {delight:dg_mean}; without correction, the cosine "
        "decreases to {delight:none_mean}",
        "delight",
        when="at the paper's temperature, DG's cosine grows only on older data; that of exact IS is one throughout",
        held="grown",
        test="DG's distance from a cosine of one halves; that of another method doubles",
    ),
    _claim(
        "No weight that ignores the advantage's sign, not even exact IS, makes the cosine grow",
        "not reproduced",
        "at a low temperature, the cosine of DG's gate without the sign grows from {delight:blind_first} to "
        "{delight:blind_last}",
        "delight",
        when="exact IS starts at a cosine of one; a gate without the sign grows at a low temperature",
        held="blind",
        test="no such weight halves the distance from a cosine of one",
    ),
    _claim(
        "DG's second moment perpendicular to the gradient vanishes",
        "reproduced",
        "the moment is {delight:dg_across} of its value without correction; with exact IS, {delight:is_across}",
        "delight",
        when="one prompt, exact",
        held="across",
        test="the moment falls below a thousandth of its value without correction",
    ),
    _claim(
        "Without importance ratios, DG beats exact IS",
        "mostly not",
        "on graded sequences, compared with no correction, return changes by {delight:graded_dg} with DG, and by "
        "{delight:graded_is} with exact IS",
        "delight_returns",
        when="only on graded sequences; at the best synchronous rate, also on two of three other tasks",
        held="beats",
        test="on stale data, tuned DG has a higher mean return than tuned exact IS",
    ),
)
