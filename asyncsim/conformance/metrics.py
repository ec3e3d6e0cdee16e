"""`check_metric`: which diagnostic a function from outside computes, and which known mistakes it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asyncsim.base import checks
from asyncsim.conformance import _metric_findings as known
from asyncsim.conformance._metric_search import Fit, batches, fits, nearest, numbers
from asyncsim.conformance._metric_subject import Subject, same
from asyncsim.conformance.reports import MetricReport


def check_metric(
    fn: Callable[..., Any],
    like: str | None = None,
    *,
    key: str | int | None = None,
    micro_batch: int | None = None,
    allow: Sequence[str] = (),
    strict: bool = False,
    tolerance: float = 1e-4,
    seed: int = 0,
    check: bool = False,
) -> MetricReport:
    """Ask a metric for its number on a few batches and compare it with every metric here, right and wrong.

    `fn(log_prob, old_log_prob, mask, ...)` returns a number. Arguments are recognized by their names in any order
    (`rollout_log_probs`, `response_mask`, `log_ratio`, `trained_version`, `num_rollouts`, ...); what has a default
    keeps it. Tokens are `[B, T]`, in numpy or torch, or lists of rows where fn wants them. With w the ratio of two
    policies, ESS/n = (sum w)^2 / (n sum w^2), k3 = w - 1 - log w, staleness = trained - generated version. Each is
    compared of tokens, sequences and geometric means, over the step and over its parts, with and without the mask.
    Clamps and bounds of a clip are measured. An entry of the catalogue has at most two mistakes.

    Arguments: `like`, the metric that it is meant to be (None: any); `key` of the number where fn returns several;
    `micro_batch`, rows of a part where the trainer calls fn for each and logs the mean; `allow`, names of findings
    that do not count; `strict`, whether hazards count too; `tolerance`, relative, with room for float32; `seed` of
    the batches; `check` raises where it does not conform. Returns a `MetricReport`. Raises `InputError` where fn
    fails, returns no number or two numbers for one batch, for arguments that are unknown or ambiguous, and for unknown
    names; `ConformanceError` with `check`. Assumes that fn has no state. Source: textbook; mistakes as in trainers.

    >>> import numpy as np
    >>> def ess(log_prob, old_log_prob, mask):
    ...     ratio = np.exp(log_prob - old_log_prob) * mask
    ...     return ratio.sum() ** 2 / (ratio**2).sum() / mask.sum()
    >>> report = check_metric(ess)
    >>> report.conforms, report.name
    (True, 'ess_token')
    >>> print(check_metric(ess, micro_batch=2).bugs)
    ('averaged over parts',)
    """
    for field, value in (("strict", strict), ("check", check)):
        checks.boolean(field, value, "say whether")
    checks.real("tolerance", tolerance, "give the largest relative deviation of a number", 0.0, 0.1, open_low=True)
    checks.integer("seed", seed, 0, "give a whole number")
    if micro_batch is not None:
        checks.integer("micro_batch", micro_batch, 1, "give the rows of a micro-batch")
    if like is not None:
        like = checks.one_of(
            "like", str(like).replace("-", "_"), known.METRICS, "name the metric that it is meant to be"
        )
    for name in allow:
        checks.one_of("allow", name, known.NAMES, "name findings as a report does")
    subject = Subject(fn, key, micro_batch)
    report = _report(subject, like, frozenset(allow), strict, tolerance, seed)
    return report.raise_for_failure() if check else report


def _report(
    subject: Subject, like: str | None, allow: frozenset[str], strict: bool, tolerance: float, seed: int
) -> MetricReport:
    probes = batches(seed, subject.masked)
    values = [subject.ask(probe) for probe in probes]
    again = subject.ask(probes[0])
    remedy = "seed or leave out what is random, and keep no state between calls"
    checks.require(same(again, values[0], 1e-12), "metric", (values[0], again), "the same number twice", remedy)
    # Find what it is, then what is wrong with it.
    still = all(same(value, values[0], tolerance) for value in values)
    # What no ordinary batch moves may be a share beyond their log ratios.
    found = [one for one in fits(subject, values, seed, tolerance) if not still or one.entry.family == "clip"]
    named = [fit for fit in found if known.name(fit.entry) == like] or found
    best = named[0] if named else None
    findings = [known.constant(values[0])] if still and best is None else []
    if best:
        signed = "advantages" in subject.roles.values()
        findings = [*known.known(best, values, probes, like, signed), *known.edges(subject, best, probes[1], tolerance)]
    counted = [f for f in findings if f.name not in allow and (f.kind == "bug" or (strict and f.kind == "hazard"))]
    right = best is not None and like in (None, known.name(best.entry))
    target = best if right else nearest(subject, values, seed, lambda e: like in (None, known.name(e)))
    unchecked = () if subject.masked else ("what a mask would hide, for it takes none: give it generated tokens only",)
    return MetricReport(
        conforms=right and not counted,
        name=known.name(best.entry) if best else "unknown",
        like=like,
        words=known.words(best) if best else "",
        same=tuple(dict.fromkeys(known.label(fit) for fit in named[1:])),
        nearest=f"{known.name(target.entry)}: {known.words(target)}" if target else "",
        difference=_difference(target, values, probes, tolerance) if target and not right else "",
        findings=tuple(findings),
        arguments=subject.notes,
        unchecked=unchecked,
    )


def _difference(fit: Fit, values: Sequence[float], probes: Sequence[Any], tolerance: float) -> str:
    """The first batch on which the function has another number."""
    ours = numbers(*fit, probes)
    for probe, expected, value in zip(probes, ours, values, strict=True):
        if not same(expected, value, tolerance):
            return f"{probe.name}: expected {expected:.6g}, found {value:.6g}"
    return ""
