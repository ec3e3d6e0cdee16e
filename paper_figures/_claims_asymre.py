"""Claims of AsymRE (arXiv 2506.20520)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim

_claim = partial(Claim, "AsymRE")
CLAIMS = (
    _claim(
        "A baseline below the behavior's mean improves on it and keeps several arms",
        "reproduced",
        "{asymre:improved} of {asymre:below} limits improve; off the projection by {asymre:off} at most",
        "asymre",
    ),
    _claim(
        "From the mean on the policy collapses to one arm",
        "reproduced",
        "arms in use: {asymre:support_tenth} at −0.1, {asymre:support_zero} at 0, {asymre:support_above} at +0.1",
        "asymre",
    ),
    _claim(
        "A shift of −0.1 is better off-policy than none",
        "not reproduced",
        "worse: {asymre:stale} shifts below 0 on stale data, {asymre:frozen} on frozen",
        "asymre",
        when="at best rates",
    ),
)
