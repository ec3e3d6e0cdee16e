"""Which of both anchors a loss is compared with where nobody said: its adapter or its own gradient tells."""

from __future__ import annotations

from asyncsim.conformance._loss_case import Case


def chosen(case: Case, declared: str | None) -> tuple[Case, str]:
    """The case with the anchor that explains the loss; which and why, where it is not the method's own.

    Where neither explains it: the log-probs that its adapter hands over (`declared`), else the only ones it reads.
    """
    like = case.like
    if like is None or not like.weight.anchored or case.target.exact(case.tolerance):
        return case, ""
    if case.other_anchor:
        anchor, why = case.other_anchor, "with which it explains every token"
    elif declared:
        anchor, why = declared, "the old log-probs of the adapter"
    elif len(case.reads) == 1:
        anchor, why = case.reads[0], "the only log-probs that the loss reads"
    else:
        return case, ""
    if anchor == like.anchor:
        return case, ""
    return case.at(anchor), f"anchor={anchor!r}, {why}; that of {like.name} is {like.anchor!r} unless it is named"
