"""From a loss to everything that is known of it: its answers, and the methods in the order of their distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from asyncsim.conformance._loss_advantages import reading, reading_of_rows
from asyncsim.conformance._loss_aggregators import Divisor, aggregator_of
from asyncsim.conformance._loss_around import capped_low, floorable, floored, masks
from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_curves import Curves
from asyncsim.conformance._loss_evidence import Evidence, Fit
from asyncsim.conformance._loss_methods import Family, families, fixed, settings_of
from asyncsim.conformance._loss_penalties import penalty_of
from asyncsim.conformance._loss_probes import (
    INSIDE,
    LADDERS,
    LARGE,
    Points,
    beyond,
    by_name,
    on_policy,
    ordinary,
    points,
    sparse,
)
from asyncsim.conformance._loss_search import order, search
from asyncsim.conformance._loss_subject import Loss, Probe, Subject
from asyncsim.conformance._loss_trimmed import untrimmed
from asyncsim.methods._method import ANCHORS, Method

_NEAR = 12
"""Methods that are tried under every mask."""
_CAPS = (None, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""Caps that trainers use."""


def measured(fn: Loss, wanted: Method | None, tolerance: float, seed: int, inside: bool) -> tuple[Case, list[Fit]]:
    """The case of a loss, and the fits best first; `inside`, whether it takes an advantage for every token."""
    probes, further, given = ordinary(seed), beyond(seed, inside), Subject(fn)
    given.admit(probes[:5])
    subject, trimmed = untrimmed(given, by_name(probes, "on policy"))
    read = reading(subject, _of_one_policy(further[LARGE][0]))
    rows = reading_of_rows(subject, _of_one_policy(further[INSIDE][0])) if inside and read is None else None
    seen = [read.clamped(probe) for probe in probes] if read else probes
    curves = Curves(subject)
    divisor = aggregator_of(subject, on_policy(probes), on_policy(seen))
    found, _ = families()
    evidence = _evidence(subject, probes, seen, curves, divisor)
    if read:
        single = read.clamped(evidence.points.probe(False)).advantages[:, 0]
        evidence = evidence.beside(points=evidence.points._replace(advantage=single))
    fits, evidence = _fits(evidence, found, curves, tolerance, wanted, evidence.undivided(probes))
    case = Case(
        subject,
        probes,
        curves,
        divisor,
        evidence,
        fits[0],
        wanted,
        tolerance,
        found,
        given,
        further,
        reading=read or rows,
        trimmed=trimmed,
    )
    if wanted is None and not fits[0].exact(tolerance) and case.reads == ("proximal",):
        evidence, turned = case.turned
        if turned[0].exact(tolerance):
            # Nobody said which policy is meant.
            fits, case = turned, case.explained(evidence, turned[0])
    return _holding(case, fits)


def _of_one_policy(probe: Probe) -> Probe:
    return probe.but(probe.name, log_prob=probe.behavior, proximal=probe.behavior)


def _holding(case: Case, fits: list[Fit]) -> tuple[Case, list[Fit]]:
    """Of the methods that explain ordinary batches, those first that explain the others, too; alone, if there are."""
    exact = [fit for fit in fits if fit.exact(case.tolerance)]
    cases = [case.explained(case.evidence, fit) for fit in exact]
    holding = [one for one in cases if all(one.first_off(group) is None for group in one.further)]
    if not holding:
        return case, fits
    left = [fit for fit in fits if not fit.exact(case.tolerance)]
    return holding[0], [*(one.best for one in holding), *left]


def _evidence(
    subject: Subject, probes: Sequence[Probe], seen: Sequence[Probe], curves: Curves, divisor: Divisor | None
) -> Evidence:
    """Answers on batches, and on a ladder with both sides of every kink, as far as no log ratio is clamped."""
    listed = [points("drift", 1.0, np.zeros(1))]
    ends = [kink.log_ratio for kink in curves.limits]
    low, high = max((x for x in ends if x < 0), default=-np.inf), min((x for x in ends if x > 0), default=np.inf)
    for ladder in LADDERS:
        x = sparse(ladder)
        x = x[(x > low) & (x < high)]
        listed += [points(ladder, float(sign), x) for sign in (1, -1)]
    for kink in curves.kinks:
        sides = np.array([kink.log_ratio - 1e-6, kink.log_ratio + 1e-6])
        if low < sides[0] and sides[1] < high:
            listed.append(points(kink.ladder, float(kink.sign), sides))
    at = Points(*(torch.cat(column) for column in zip(*listed, strict=True)))
    answers = [subject.ask(probe).cotangent for probe in probes]
    times = [divisor.times(probe) if divisor else 1.0 for probe in probes]
    aggregator = divisor.aggregator if divisor else None
    return Evidence(seen, answers, at, curves(at), curves.pair, aggregator, times, curves.separable)


def _fits(
    evidence: Evidence,
    found: Sequence[Family],
    curves: Curves,
    tolerance: float,
    wanted: Method | None,
    asked: Evidence,
) -> tuple[list[Fit], Evidence]:
    """The nearest methods; where none is the loss, also with the penalty or the mask that its tokens show.

    Where the asked method is the loss the others are not searched, only looked at with their defaults.
    """
    first = wanted.name if wanted else None
    known = _known(wanted, asked, tolerance)
    fits = search(evidence, found, curves.kinks, tolerance, first, known is not None)
    if known is not None:
        own = fits[0].exact(tolerance) and fits[0].family is not None and fits[0].family.name == first
        return (fits if own else [known, *fits]), evidence
    if fits[0].exact(tolerance):
        return fits, evidence
    low = capped_low(curves, found)
    if low is not None:
        anchors = [{"anchor": anchor} for anchor in low.choices["anchor"]]
        capped = min((evidence.fit(low, {**low.numbers, **a}) for a in anchors), key=lambda fit: fit.score)
        if capped.exact(tolerance):
            return [capped, *fits], evidence
    change = floored(curves)
    if change is not None:
        beside = evidence.beside(change=change)
        listed = search(beside, floorable(found), curves.kinks, tolerance, first, smooth=False)
        if listed[0].exact(tolerance):
            return listed, beside
    penalty = penalty_of(curves)
    if penalty is not None:
        beside = evidence.beside(penalties=(penalty,))
        other = search(beside, found, curves.kinks, tolerance, first)
        fits, evidence = (other, beside) if other[0].score < fits[0].score else (fits, evidence)
    return _masked(evidence, fits, found, curves, tolerance, first)


def _known(wanted: Method | None, asked: Evidence, tolerance: float) -> Fit | None:
    """The asked method with the anchor that makes it the loss; None where none does."""
    if wanted is None:
        return None
    anchors = dict.fromkeys((wanted.anchor, *ANCHORS)) if wanted.weight.anchored else (wanted.anchor,)
    for anchor in anchors:
        method = wanted.replace(anchor=anchor)
        fit = asked.compare(method, fixed(method), settings_of(method))
        if fit.exact(tolerance):
            return fit
    return None


def _masked(
    evidence: Evidence, fits: list[Fit], found: Sequence[Family], curves: Curves, tolerance: float, first: str | None
) -> tuple[list[Fit], Evidence]:
    """The same, or with a mask beside the methods where that comes nearer.

    Single tokens do not tell masks of tokens from those of rows: the methods are searched under the first, and the
    nearest of them are tried under the others. Where a method explains single tokens, no mask is looked for.
    """
    alone = any(fit.curve <= tolerance for fit in fits)
    listed = [] if alone else masks(curves)
    if not listed:
        return fits, evidence
    best, chosen = fits, evidence
    beside = [evidence.beside(penalties=evidence.penalties, factors=(factor,)) for factor in listed]
    under = search(beside[0], found, curves.kinks, tolerance, first, smooth=False)
    for other in beside:
        again = [other.fit(fit.family, fit.settings) for fit in under[:_NEAR] if fit.family is not None]
        if not any(fit.exact(tolerance) for fit in again):
            again += _hidden(other, [fit for fit in again if fit.curve <= tolerance], tolerance)
        again.sort(key=lambda fit: order(fit, evidence.aggregator, first))
        if again and again[0].score < best[0].score - 1e-9:
            best, chosen = again, other
    return best, chosen


def _hidden(evidence: Evidence, fits: Sequence[Fit], tolerance: float) -> list[Fit]:
    """Fits with another cap: single tokens do not show it where a mask of rows drops them. No cap is tried first."""
    found: list[Fit] = []
    for cap in _CAPS:
        capped = [fit for fit in fits if fit.family is not None and "cap" in fit.family.numbers]
        found += [evidence.fit(fit.family, {**fit.settings, "cap": cap}) for fit in capped if fit.family is not None]
        if any(fit.exact(tolerance) for fit in found):
            return found
    return found
