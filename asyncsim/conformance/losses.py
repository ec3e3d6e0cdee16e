"""`check_loss`: which method a loss from outside is, how biased it is, and which known mistakes it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from asyncsim import advantages, checks, plugins
from asyncsim.advantages._advantage import Advantage
from asyncsim.conformance import _loss_anchors, _loss_bias, _loss_bugs, _loss_styles
from asyncsim.conformance._loss_aggregators import Divisor, aggregator_of
from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_curves import Curves
from asyncsim.conformance._loss_methods import Evidence, Family, Fit, apart, bare, expected, families, reason
from asyncsim.conformance._loss_penalties import penalty_of
from asyncsim.conformance._loss_probes import LADDERS, Points, grid, on_policy, ordinary, points
from asyncsim.conformance._loss_search import search
from asyncsim.conformance._loss_subject import Loss, Probe, Subject
from asyncsim.conformance.loss_reports import Disagreement, LossReport, Match, shown
from asyncsim.methods._method import ANCHORS, Method

_THIN = 9
_SAME = 5
"""Methods with the same gradient that a report names, at most."""


def check_loss(
    fn: Loss, like: str | Method | None = None, *, anchor: str | None = None, advantage: Advantage | None = None,
    bias: bool = True, allow: Sequence[str] = (), strict: bool = False, tolerance: float = 1e-6, seed: int = 0,
    check: bool = False,
) -> LossReport:
    """Ask a loss for its gradient on random batches and compare it, token by token, with that of every method here.

    `fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask)` returns a scalar; all tensors are `[B, T]` in
    float64, sequences of one group stand together. Its gradient is -dL/d log_prob = s a m c with a factor s of its own:
    s, the aggregator a, the anchor of its ratios, the kinks of c and its constants are read off; then every method,
    over its settings, is compared. Where policies agree c is a constant times A, which tells a; single tokens on a
    ladder of log ratios tell c.

    Arguments: `like`, the method that it is meant to be (a name with its defaults, or a `Method`; None: any); `anchor`
    of its ratios, "behavior", "proximal" or "either": the one that explains the loss, else the adapter's `old` (default
    "either" for a name, a `Method`'s own);
    `advantage` of the enumeration of bias and variance (default leave-one-out), left out without `bias`; `allow`, names
    of bugs that do not count; `strict`, whether hazards count too; `tolerance`, deviation of one token relative to its
    weight; `seed` of the batches; `check` raises where it does not conform. Returns a `LossReport`. Raises `InputError`
    where fn fails, returns no scalar, or does not depend on log_prob, and for unknown names; `ConformanceError` with
    `check`. Source: textbook.

    >>> def loss(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    ...     ratio = torch.exp((log_prob - behavior_log_prob) * mask)
    ...     surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
    ...     return -(surrogate * mask).sum() / mask.sum()
    >>> report = check_loss(loss, bias=False)
    >>> report.conforms, report.name
    (True, 'dapo()')
    """
    for field, value in (("bias", bias), ("strict", strict), ("check", check)):
        checks.boolean(field, value, "say whether")
    checks.real("tolerance", tolerance, "give the largest relative deviation of a token", 0.0, 0.5, open_low=True)
    checks.integer("seed", seed, 0, "give a whole number")
    for name in allow:
        checks.one_of("allow", name, _loss_bugs.NAMES, "name findings as a report does")
    wanted = _asked(like, anchor)
    _loss_styles.refuse(fn)
    case, fits = _measured(Subject(fn), wanted, tolerance, seed)
    either = anchor == "either" or (anchor is None and isinstance(like, str))
    case, compared = _loss_anchors.chosen(case, getattr(fn, "old", None)) if either else (case, "")
    label = _named(like, case.like, anchor) if isinstance(like, str) else _label(case.like)
    report = replace(_report(case, fits, label, set(allow), strict), compared=compared)
    if bias:
        report = _with_bias(report, case, advantage or advantages.leave_one_out())
    return report.raise_for_failure() if check else report


def _measured(subject: Subject, wanted: Method | None, tolerance: float, seed: int) -> tuple[Case, list[Fit]]:
    """Everything that is known of a loss, and the methods in the order of their distance from it."""
    probes = ordinary(seed)
    subject.admit(probes[:5])
    curves = Curves(subject)
    divisor = aggregator_of(subject, on_policy(probes))
    found, _ = families()
    evidence = _evidence(subject, probes, curves, divisor)
    fits, evidence = _fits(evidence, found, curves, tolerance, wanted.name if wanted else None)
    return Case(subject, probes, curves, divisor, evidence, fits[0], wanted, tolerance, found), fits


def _asked(like: str | Method | None, anchor: str | None) -> Method | None:
    """The method that the loss is meant to be."""
    if anchor is not None:
        checks.one_of("anchor", anchor, (*ANCHORS, "either"), "say which policy ratios refer to")
        checks.require(like is not None, "anchor", anchor, "used with like", "name the method")
    if like is None:
        return None
    if isinstance(like, str):
        made = plugins.load("asyncsim.methods", like, "like")()
    else:
        checks.require(isinstance(like, Method), "like", like, "a name or a method", "write sim.methods.NAME(...)")
        made = like
    why = reason(bare(made))
    remedy = "compare with a method whose weight reads log-probs of tokens only"
    checks.require(why is None, "like", made.name, f"comparable (this one {why})", remedy)
    return bare(made if anchor in (None, "either") else made.replace(anchor=anchor))


def _named(like: str, method: Method | None, anchor: str | None) -> str:
    """The call that makes a method which was asked for by name."""
    own = plugins.load("asyncsim.methods", like, "like")().anchor
    said = method is not None and (method.anchor != own or anchor in ANCHORS)
    return f"{like.replace('-', '_')}({f'anchor={method.anchor!r}' if method and said else ''})"


def _label(method: Method | None) -> str | None:
    if method is None:
        return None
    settings = {k: v for k, v in method.weight.describe().items() if k not in ("weight", "level")}
    settings |= {"aggregator": method.aggregator} | ({"anchor": method.anchor} if method.weight.anchored else {})
    return f"{method.name}({', '.join(f'{name}={shown(value)}' for name, value in settings.items())})"


def _evidence(subject: Subject, probes: Sequence[Probe], curves: Curves, divisor: Divisor | None) -> Evidence:
    """Answers on batches, and on a thinned ladder with both sides of every kink."""
    listed = [points(ladder, float(sign), grid(ladder)[::_THIN]) for ladder in LADDERS for sign in (1, -1)]
    for kink in curves.kinks:
        sides = np.array([kink.log_ratio - 1e-6, kink.log_ratio + 1e-6])
        listed.append(points(kink.ladder, float(kink.sign), sides))
    at = Points(*(torch.cat(column) for column in zip(*listed, strict=True)))
    answers = [subject.ask(probe).cotangent for probe in probes]
    times = [divisor.times(probe) if divisor else 1.0 for probe in probes]
    aggregator = divisor.aggregator if divisor else None
    return Evidence(probes, answers, at, curves(at), curves.pair, aggregator, times, curves.separable)


def _fits(
    evidence: Evidence, found: Sequence[Family], curves: Curves, tolerance: float, first: str | None
) -> tuple[list[Fit], Evidence]:
    """The nearest methods; where tokens without advantage have a weight, also with the penalty that explains it."""
    fits = search(evidence, found, curves.kinks, tolerance, first)
    penalty = None if fits[0].exact(tolerance) else penalty_of(curves)
    if penalty is not None:
        beside = evidence.penalized(penalty)
        other = search(beside, found, curves.kinks, tolerance, first)
        if other[0].score < fits[0].score:
            return other, beside
    return fits, evidence


def _report(case: Case, fits: Sequence[Fit], label: str | None, allow: set[str], strict: bool) -> LossReport:
    best, tolerance = fits[0], case.tolerance
    alike = [_match(fit, case) for fit in fits if fit.exact(tolerance)]
    same = {match.method: match.label for match in reversed(alike) if match.method != alike[0].method}
    findings = tuple(_loss_bugs.findings(case))
    counted = [f for f in findings if f.name not in allow and (f.kind == "bug" or (strict and f.kind == "hazard"))]
    target = case.target
    match = _match(best, case)
    return LossReport(
        conforms=target.exact(tolerance) and not counted,
        name=match.label if best.exact(tolerance) else "unknown",
        like=label,
        match=match,
        same=tuple(reversed(list(same.values())))[:_SAME],
        scale=target.scale,
        aggregator=case.divisor.name if case.divisor else "unknown",
        anchor=case.anchor,
        coupling=case.coupling,
        kinks=_told(case),
        disagreement=None if target.exact(tolerance) else _first(case),
        findings=findings,
        bias=(),
        unchecked=tuple(f"{name}: {why}" for name, why in families()[1].items()),
        distance=target.largest,
    )


def _match(fit: Fit, case: Case) -> Match:
    assert fit.family is not None
    settings = dict(fit.settings)
    if case.divisor and fit.family.aggregator != case.divisor.aggregator:
        settings["aggregator"] = case.divisor.aggregator
    for penalty in case.evidence.penalties:
        told = penalty.describe()
        settings["penalties"] = f"({told['penalty']}({told['coefficient']:g}, to={told['to']!r}),)"
    return Match(fit.family.name, settings, fit.score, fit.largest)


def _told(case: Case) -> tuple[str, ...]:
    """The kinks without those that only repeat another ladder's."""
    told, lines = set(), []
    keys = [(kink.sign, round(kink.log_ratio, 6), kink.kind) for kink in case.curves.kinks]
    listed = list(zip(case.curves.kinks, keys, strict=True))
    snapshot = {key for kink, key in listed if kink.ladder == "snapshot"}
    for kink, key in listed:
        if key not in told:
            lines.append(kink.told(case.reads == ("proximal",) or key in snapshot))
        told.add(key)
    return tuple(lines)


def _first(case: Case) -> Disagreement | None:
    """The first generated token of a batch on which the loss and the asked (or nearest) method differ."""
    method, fit = case.method, case.target
    wanted = expected(method, case.probes)
    for probe, ours, theirs in zip(case.probes, wanted, case.evidence.answers, strict=True):
        times = case.divisor.times(probe) if case.divisor and not case.like else 1.0
        off = (apart(theirs, fit.scale * times * ours) > case.tolerance) & (probe.mask > 0)
        if bool(off.any()):
            row, token = (int(x) for x in off.nonzero()[0])
            return Disagreement(
                probe.name, row, token, float(fit.scale * times * ours[row, token]), float(theirs[row, token])
            )
    return None


def _with_bias(report: LossReport, case: Case, advantage: Advantage) -> LossReport:
    """The report with the moments of the loss, in the scale of the method beside it."""
    try:
        rows = _loss_bias.biases(case.ask, case.target.scale, case.method, advantage)
    except checks.InputError as error:
        return replace(report, omitted=str(error))
    return replace(report, bias=rows)
