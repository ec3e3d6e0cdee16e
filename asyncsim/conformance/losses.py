"""`check_loss`: identify the method of a user's loss, its bias, and known mistakes."""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages, tasks
from asyncsim.advantages._advantage import Advantage
from asyncsim.base import arguments, calls, checks, plugins
from asyncsim.conformance import _loss_findings, _loss_methods
from asyncsim.conformance._loss_case import Case, measured
from asyncsim.conformance._loss_methods import SNAPSHOT, bare, families, reason, settings_of
from asyncsim.conformance._loss_parts import UNKNOWN
from asyncsim.conformance._loss_probes import LIMITS
from asyncsim.conformance._loss_search import Fit
from asyncsim.conformance._loss_subject import Loss, Probe
from asyncsim.conformance._metric_search import Subject as Metrics
from asyncsim.conformance.advantages import Subject as Advantages
from asyncsim.conformance.reports import BiasRow, LossReport, Match, refuse_settings
from asyncsim.methods import _from_loss
from asyncsim.methods._method import ANCHORS, Method
from asyncsim.methods._weights import Weight
from asyncsim.sampling import oracle
from asyncsim.step.step import Step
from asyncsim.step.versions import threads

PER = ("token", "sequence")
_SAME = 5
"""Methods with the same gradient that a report names, at most."""


@calls.named
def check_loss(
    fn: Loss,
    like: str | Method | Loss | None = None,
    *,
    anchor: str | None = None,
    advantage: Advantage | None = None,
    advantages_per: str | None = None,
    bias: bool = True,
    allow: str | Sequence[str] = (),
    strict: bool = False,
    tolerance: float = 1e-6,
    seed: int = 0,
    check: bool = False,
) -> LossReport:
    """Compare a loss's gradient on random batches, token by token, with that of every method in the catalogue.

    `fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask)` returns a scalar; all tensors are `[B, T]` in
    float64, sequences of one group stand together. Arguments are recognized by their names (`old_logp`,
    `rollout_log_probs`, `response_mask`, ...) in any order, by position only where five names say nothing; what has a
    default keeps it. The gradient is -dL/d log_prob = s a m c with a factor s of its own: s, the aggregator a, the
    anchor of its ratios, the kinks of c and its constants are determined. Then every method, over its settings, is
    compared. Where policies agree c is a constant times A, which determines a. Single tokens on a ladder of log ratios
    determine c.

    Arguments: `like`, the method that it is meant to be (a name with its defaults, a `Method`, or your own formula as a
    function that `methods.from_loss` takes; None: any); `anchor` of its ratios, "behavior", "proximal" or "either": the
    one that explains the loss, else the adapter's `old` (default "either" for a name, a `Method`'s own); `advantage` of
    the enumeration of bias and variance (default leave-one-out), left out without `bias`; `advantages_per`, "token" or
    "sequence": whether advantages differ inside a row (default: what the adapter says, else "token"); `allow`, names of
    bugs that do not count; `strict`, whether hazards count too; `tolerance`, deviation of one token relative to its
    weight; `seed` of the batches; `check` raises where it does not conform. Returns a `LossReport`. Raises `InputError`
    where fn fails, returns no scalar, or does not depend on log_prob, for arguments that are unknown or ambiguous, and
    for unknown names; `ConformanceError` with `check`. Source: textbook.

    >>> import torch
    >>> def loss(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask):
    ...     ratio = torch.exp((log_prob - behavior_log_prob) * mask)
    ...     surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
    ...     return -(surrogate * mask).sum() / mask.sum()
    >>> report = check_loss(loss, bias=False)
    >>> report.conforms, report.name
    (True, 'dapo()')
    """
    allow = refuse_settings(tolerance, 0.5, seed, allow, _loss_findings.NAMES, bias=bias, strict=strict, check=check)
    per = getattr(fn, "advantages_per", "token") if advantages_per is None else advantages_per
    checks.one_of("advantages_per", per, PER, "say whether advantages differ inside a row")
    method = _method_like(like, anchor)
    arguments.refuse(fn)
    _refuse_other(fn)
    # Losses that overflow far out, or have no std of one token, are reported, not warned of.
    with threads(1), np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*degrees of freedom is <= 0")
        case, fits = measured(fn, method, tolerance, seed, per == "token")
        either = anchor == "either" or (anchor is None and isinstance(like, str))
        case, compared = chosen(case, getattr(fn, "old", None)) if either else (case, "")
        label = None
        if isinstance(like, str):
            default = plugins.load("asyncsim.methods", like, "like")().anchor
            differs = case.like and (case.like.anchor != default or anchor in ANCHORS)
            label = f"{like.replace('-', '_')}({f'anchor={case.like.anchor!r}' if case.like and differs else ''})"
        elif case.like:
            label = Match(case.like.name, _told(case.like, settings_of(case.like)) | _parts(case.like), 0.0, 0.0).label
        report = replace(_report(case, fits, label, set(allow), strict), compared=compared)
        if bias:
            # The moments of the loss, in the scale of the method beside it.
            try:
                report = replace(report, bias=biases(case, advantage or advantages.leave_one_out()))
            except checks.InputError as error:
                report = replace(report, omitted=str(error))
    return report.raise_for_failure() if check else report


def _refuse_other(fn: Loss) -> None:
    """Raise `InputError` for arguments that no loss takes, naming the check that they fit."""
    try:
        known = bool(arguments.bind(fn).words)
        checks.require(known, "loss", fn, "one whose arguments' names say what they are", "name them log_prob, ...")
    except checks.InputError as error:
        kinds = []
        for kind, subject in (("advantage", Advantages), ("metric", Metrics)):
            with suppress(checks.InputError):
                subject(fn)
                kinds.append(kind)
        if not kinds or error.remedy == arguments.MASKED or error.remedy.endswith(arguments.WITHOUT_KL):
            return  # refused by name where it is asked
        check = f"--kind {kinds[0]} (in Python check_{kinds[0]}, in pytest asyncsim_{kinds[0]})"
        remedy = f"its arguments fit {check}; for a loss {error.remedy}"
        raise checks.InputError(error.field, error.value, error.bound, remedy) from error


def _told(method: Method, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings for a report; for a hand-written loss only the aggregator, if the loss does not average itself."""
    written = method.weight
    if not isinstance(written, _from_loss.Loss):
        return settings
    return {} if written.averages else {"aggregator": settings["aggregator"]}


def _method_like(like: str | Method | Loss | None, anchor: str | None) -> Method | None:
    """Return the method that the loss is supposed to be."""
    if anchor is not None:
        checks.one_of("anchor", anchor, (*ANCHORS, "either"), "say which policy ratios refer to")
        checks.require(like is not None, "anchor", anchor, "used with like", "name the method")
    if like is None:
        return None
    if isinstance(like, str):
        for kind in ("penalties", "diagnostics", "advantages"):
            name, remedy = like.replace("-", "_"), checks.advice(kind, "like")
            there = plugins.home_of("asyncsim.methods", name) is None and name in plugins.summaries(f"asyncsim.{kind}")
            checks.require(not there, "like", like, f"a method ({name} is one of {kind})", remedy.format(name))
        method = plugins.load("asyncsim.methods", like, "like")()
    else:
        remedy = "write sim.methods.NAME(...)"
        known = isinstance(like, Method) or (callable(like) and getattr(like, "__module__", "") != "asyncsim.methods")
        checks.require(known, "like", like, "a name, a method or a loss written by hand", remedy)
        method = like if isinstance(like, Method) else _from_loss.from_loss(like)
    why = reason(bare(method))
    remedy = "compare with a method whose weight reads log-probs of tokens only"
    checks.require(why is None, "like", method.name, f"comparable (this one {why})", remedy)
    return bare(method if anchor in (None, "either") else method.replace(anchor=anchor))


def _parts(method: Method) -> dict[str, str]:
    """Masks and penalties of a method, as written in a call."""
    factors = [part for part in method.factors if not isinstance(part, _loss_methods.Shared)]
    groups = {"factors": factors, "penalties": method.penalties}
    return {name: f"({', '.join(map(_loss_methods.notation, parts))},)" for name, parts in groups.items() if parts}


def _report(case: Case, fits: Sequence[Fit], label: str | None, allow: set[str], strict: bool) -> LossReport:
    best, tolerance, target = case.best, case.evidence.tolerance, case.target
    fits = fits if best is fits[0] else [best, *fits]
    alike = [_match(fit, case) for fit in fits if fit.exact(tolerance)]
    same = {match.method: match.label for match in reversed(alike) if match.method != alike[0].method}
    findings = tuple(_loss_findings.findings(case))
    counted = any(finding.counts(allow, strict) for finding in findings)
    guessed = any(note.startswith(arguments.GUESSED) for note in case.original.binding.notes)
    if guessed and (counted or not case.conforms):
        # Of tensors that may be others nothing is a bug.
        findings = tuple(replace(one, kind="note") if one.kind == "bug" else one for one in findings)
    skipped = tuple(f"{name}: {why}" for name, why in families()[1].items())
    match = _match(best, case)
    # The first generated token on which the loss and the asked (or nearest) method differ.
    groups = (group for group in (None, *case.further) if group is None or not case.holds(group))
    differences = (case.first_off(group, case.method, raw=True) for group in groups)
    return LossReport(
        conforms=case.conforms and not counted, name=match.label if match.largest <= tolerance else "unknown",
        like=label, match=match, same=tuple(reversed(list(same.values())))[:_SAME], scale=target.scale,
        aggregator=case.nearest.aggregator if case.reading and case.divisor is UNKNOWN else case.divisor.name,
        anchor=" and ".join(case.reads) or "none", coupling=case.coupling, kinks=_kink_lines(case),
        disagreement=None if case.conforms else next(filter(None, differences), None), findings=findings, bias=(),
        unchecked=(*case.unchecked(), *LIMITS, *skipped), uncompared=skipped, excepted=case.excepted,
        distance=max([target.largest, *map(case.farthest, case.further)]), arguments=case.original.binding.notes,
        guessed=guessed and (counted or not case.conforms),
    )  # fmt: skip


def _match(fit: Fit, case: Case) -> Match:
    settings = dict(fit.settings)
    if case.divisor.aggregator and fit.family.aggregator != case.divisor.aggregator:
        settings["aggregator"] = case.divisor.aggregator
    # What stands beside the method, without what belongs to it.
    whole = case.nearest.replace(factors=case.evidence.factors, penalties=case.evidence.penalties)
    beside = _parts(fit.family.instance or whole)
    words = " and ".join(_loss_methods.masking(factor) for factor in case.evidence.factors)
    around = case.evidence.change or case.reading
    settings = {**(_told(fit.family.instance, settings) if fit.family.instance else settings), **beside}
    name, near = fit.family.name, around.words if around else ""
    return Match(name, settings, fit.score, fit.largest, around=near, times=words, agrees=fit.agrees)


def _kink_lines(case: Case) -> tuple[str, ...]:
    """Describe the kinks, without those that repeat another ladder's."""
    reported, lines = set(), []
    # With pi and mu at one place, pi_prox / mu is the inverse of what moves.
    turned = {(k.sign, round(-k.log_ratio, 6), k.kind) for k in case.curves.kinks if k.ladder == "lag"}
    keys = [(kink.sign, round(kink.log_ratio, 6), kink.kind) for kink in case.curves.kinks]
    pairs = list(zip(case.curves.kinks, keys, strict=True))
    snapshot = {key for kink, key in pairs if kink.ladder == "snapshot"}
    proximal = case.reads == ("proximal",) or (case.curves.repeats("snapshot", 1) and not case.curves.repeats("lag", 1))
    for kink, key in pairs:
        if key not in reported and not (kink.ladder == "snapshot" and key in turned):
            lines.append(kink.text(proximal or key in snapshot))
        reported.add(key)
    return tuple(lines)


def chosen(case: Case, declared: str | None) -> tuple[Case, str]:
    """The case with the anchor that explains the loss, and a reason if that is not the method's own anchor."""
    like = case.like
    if like is None or case.target.exact(case.tolerance):
        return case, ""
    if not like.weight.anchored:
        # A method of ratios to mu, with pi_prox in that place where the adapter hands over nothing else.
        if declared != "proximal" or like.proximal:
            return case, ""  # a method of both policies needs both
        method = SNAPSHOT.of(like)
        turned = case.explained(case.evidence, case.best, method)
        if not turned.target.exact(case.tolerance):
            return case, ""
        why = "pi_prox in the place of mu, for the adapter hands over its log-probs as the old ones"
        return case.explained(case.evidence, turned.target, method), why
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
    beside = case.explained(case.evidence, case.best, like.replace(anchor=anchor))
    return beside, f"anchor={anchor!r}, {why}; that of {like.name} is {like.anchor!r} unless it is named"


_SETTINGS = ((2, 2, 4), (3, 2, 2), (2, 3, 3))
"""Arms, tokens and samples; one arm ends the sequence, so that lengths differ."""


@dataclass(frozen=True)
class Asked(Weight):
    """Score weight of a user's loss: -dL/d log_prob divided by the share of a sum over sequences."""

    ask: Callable[[Probe], Tensor]
    scale: float

    level: ClassVar[str] = "token"  # type: ignore[misc]
    proximal: ClassVar[bool] = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        """Score weight c of every token, `[R, G, N, T]`; the loss is called once per replicate."""
        present = step.mask > 0
        policies = (step.current, step.behavior, step.proximal)
        logs = [torch.where(present, x["log_prob"], torch.zeros_like(step.mask)) for x in policies]
        tensors = [*logs, advantage.expand(step.mask.shape), step.mask]
        R, G, N, T = step.mask.shape
        batches = ([x[r].reshape(G * N, T).clone() for x in tensors] for r in range(R))
        rows = [self.ask(Probe.of("enumeration", batch, N)) for batch in batches]
        return torch.stack(rows).reshape(step.mask.shape) * (G * N / self.scale)


def biases(case: Case, advantage: Advantage) -> tuple[BiasRow, ...]:
    """Exact gradient moments of the loss and of the compared method, with the same advantage and scale."""
    loss = Asked(lambda probe: case.original.ask(probe).cotangent, case.target.scale)
    pair = Method("loss", advantage, loss, "sequence_sum"), case.method.replace(advantage=advantage)
    rows = []
    for (arms, tokens, samples), displacement in itertools.product(_SETTINGS, (0.0, 0.5, 1.0)):
        task = tasks.token_bandit(actions=arms, horizon=tokens, dependence="position", ends=True)
        now = np.linspace(-0.3, 0.4, task.policy().size)
        then = now + displacement * np.cos(np.arange(len(now)) * 2.0)
        numbers: list[float] = []
        for method in pair:
            moments = oracle.moments(task, method, now, then, samples=samples)
            size, mean = (float(np.linalg.norm(x)) for x in (moments.exact, moments.mean))
            cosine = float(moments.mean @ moments.exact) / (mean * size) if mean > 0 else math.nan
            numbers += [float(np.linalg.norm(moments.bias)) / size, moments.variance / size**2, cosine]
        rows.append(BiasRow(f"{arms} arms, {tokens} tokens", samples, displacement, *numbers))
    return tuple(rows)
