"""Claims of M2PO (arXiv 2510.01161)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "M2PO")
_claim = partial(Claim, "M2PO")
CLAIMS = (
    _claim(
        "It masks 0.06 % of tokens, the clip 1.22 %",
        "under conditions",
        "at most {m2po_masked:worst} where the clip masks {m2po_masked:clipped}",
        "m2po_masked",
        when="small learning rates",
    ),
    _claim(
        "… and those of high variance",
        "under conditions",
        "entropy {m2po_entropy:forks_m2po} times the mean",
        "m2po_entropy",
        when="some tokens certain; so does the clip",
    ),
    _claim(
        "It matches fresh training at 256 updates",
        "under conditions",
        "at the end on {m2po_returns:matched} of {m2po_returns:tasks} tasks",
        "m2po_returns",
        when="pass-or-fail rewards, tuned",
        stated="2510.01161/second-moment",
    ),
    _claim(
        "Stale data informs as fresh data does",
        "under conditions",
        "no region ends as fresh on {m2po_returns:equal} of {m2po_returns:tasks} tasks",
        "m2po_returns",
        when="tables, tuned, at the end",
    ),
    _claim(
        "… until training collapses",
        "not reproduced",
        "at most {m2po_returns:collapsed} of runs",
        "m2po_returns",
        when="tables",
    ),
)
ITEMS: tuple[Item, ...] = ()
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
