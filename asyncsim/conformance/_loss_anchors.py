"""Which of both anchors a loss is compared with where nobody said: its adapter or its own gradient tells."""

from __future__ import annotations

from dataclasses import replace

from asyncsim.conformance._loss_around import SNAPSHOT
from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_methods import fixed, settings_of


def chosen(case: Case, declared: str | None) -> tuple[Case, str]:
    """The case with the anchor that explains the loss; which and why, where it is not the method's own.

    Where neither explains it: the log-probs that its adapter hands over (`declared`), else the only ones it reads.
    """
    like = case.like
    if like is None or case.target.exact(case.tolerance):
        return case, ""
    if not like.weight.anchored:
        return _at_the_snapshot(case, declared)
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


def _at_the_snapshot(case: Case, declared: str | None) -> tuple[Case, str]:
    """A method of ratios to mu, with pi_prox in that place where the adapter hands over nothing else."""
    if case.like is None or declared != "proximal" or case.like.proximal:
        return case, ""  # a method of both policies needs both
    method = SNAPSHOT.of(case.like)
    turned = case.explained(case.evidence, case.best, method)
    if not turned.target.exact(case.tolerance):
        return case, ""
    best = replace(turned.target, family=fixed(method), settings=settings_of(method))
    why = "pi_prox in the place of mu, for the adapter hands over its log-probs as the old ones"
    return case.explained(case.evidence, best, method), why
