"""Claims of AsymRE (arXiv 2506.20520)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AsymRE")
CLAIMS = (
    _claim(
        "Below the mean it improves and keeps arms",
        "reproduced",
        "{asymre:improved} of {asymre:below} improve; projection within {asymre:off}",
        "asymre",
    ),
    _claim(
        "From the mean on it collapses to one arm",
        "reproduced",
        "{asymre:support_tenth} arms at −0.1, {asymre:support_zero} at 0, {asymre:support_above} at +0.1",
        "asymre",
    ),
    _claim(
        "A shift of −0.1 is better off-policy than none",
        "mostly not",
        "{asymre:again_tenth}, none {asymre:again_zero}; tuned, worse in {asymre:frozen}",
        "asymre",
        when="better over rounds of frozen data alone",
    ),
)
