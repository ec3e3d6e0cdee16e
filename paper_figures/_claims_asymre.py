"""Claims of AsymRE (arXiv 2506.20520)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AsymRE")
CLAIMS = (
    _claim(
        "With a baseline below the mean, the policy improves and keeps several arms",
        "under conditions",
        "{asymre:improved} of {asymre:below} policies improve; all are within {asymre:off} of the predicted projection",
        "asymre",
        when="shifts of −0.05 or more; nearer to the mean, most policies keep one arm",
        held="several",
        test="return improves on all bandits, which keep two arms or more on average",
    ),
    _claim(
        "With a baseline at or above the mean, the policy collapses to one arm",
        "reproduced",
        "{asymre:support_tenth} arms remain with a shift of −0.1, {asymre:support_zero} with 0, "
        "{asymre:support_above} with +0.1",
        "asymre",
        when="frozen data, exact gradients",
        held="one",
        test="on all bandits, one arm remains",
    ),
    _claim(
        "A shift of −0.1 is better off-policy than none",
        "mostly not",
        "return is {asymre:again_tenth} with the shift, {asymre:again_zero} without; at tuned rates, shifts lose "
        "{asymre:stale} comparisons on stale data and {asymre:frozen} on frozen data",
        "asymre",
        when="the shift is better only over several rounds of frozen data",
        held="better",
        test="return is higher with the shift than without",
    ),
)
