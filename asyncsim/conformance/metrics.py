"""`check_metric`: which diagnostic a function from outside computes, and which known mistakes it shows."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsim.base import calls, checks
from asyncsim.conformance import _metric_catalogue as catalogue
from asyncsim.conformance import _metric_search as search
from asyncsim.conformance._metric_catalogue import Batch, Entry
from asyncsim.conformance._metric_search import RATIOS, Fit, Pair, Subject, numbers, quietly, same
from asyncsim.conformance.reports import Finding, MetricReport, refuse_settings

_ESS, _MEANS, _AGES, CLIPS, _OF, UNITS, _SCALES, _KNOWN, _BLIND = checks.table(__file__, "metrics.toml").values()
"""Names and words by form and level; endings of words by family and divisor; mistakes, their meaning and remedy."""
_SUMS = "add numerators and denominators over the step, then divide once"
_EDGES = ("one token", "a row without tokens", "masked NaN", "absolute epsilon", "overflow")
_VERSIONS = ("unknown versions counted", "unknown versions read as staleness 0")
NAMES = (*_KNOWN, "averaged over parts", "geometric mean", "constant", *_EDGES, *_VERSIONS)
"""Findings that a caller may allow."""


def name(entry: Entry) -> str:
    """Name of a catalogue entry without its mistakes, which is that of the package's metric if there is one."""
    if entry.family == "age":
        return _AGES[entry.form][0]
    if entry.family == "clip":
        return CLIPS[entry.form][0] + UNITS[entry.of][0]
    if entry.clamp and entry.of in ("token", "broadcast") and entry.form == "kish":
        return "ess_token_clamped"
    base = (_ESS if entry.family == "ess" else _MEANS)[entry.form][0]
    return base + _OF[entry.of][0] + ("_clamped" if entry.clamp else "")


_CLIPPED = (entry for form in CLIPS for entry in catalogue.clipped(None, form, False, 0))
_RIGHT = (*catalogue.entries(("ess", "mean", "age"), False, 0), *catalogue.clamped(0.0, 0.0, False, 0), *_CLIPPED)
METRICS = tuple(dict.fromkeys(name(entry) for entry in _RIGHT if entry.of not in catalogue.MIXED))
"""Names of what a function may be meant to be."""


def words(fit: Fit) -> str:
    """Description of a catalogue entry, with the policies of its ratio."""
    entry, pair = fit
    if entry.family == "age":
        return _AGES[entry.form][1]
    of = "" if pair in (None, ("log_prob", "behavior_log_prob")) else f" of {pair[0]} to {pair[1]}"
    scales = _SCALES[entry.family]
    ending = of + scales.get(entry.divisor, scales[""])
    if entry.family == "clip":
        return f"{UNITS[entry.of][1]} {CLIPS[entry.form][1]} ({entry.rule.words}){ending}"
    form = (_ESS if entry.family == "ess" else _MEANS)[entry.form][1]
    bounds = "" if entry.clamp is None else " clamped to [{:.4g}, {:.4g}]".format(*map(math.exp, entry.clamp))
    return f"{form} of {_OF[entry.of][1]}{bounds}{ending}"


def known(
    fit: Fit, values: Sequence[float], probes: Sequence[Batch], like: str | None, signed: bool
) -> Iterator[Finding]:
    """Findings that follow from the matching entry; `values` above the limit of a fraction are evidence."""
    entry = fit.entry
    for mistake in _titles(entry, like, signed):
        if mistake.startswith("averaged over"):
            what = "a mean of ESS is no ESS of the step" if entry.family == "ess" else "parts of any size weigh alike"
            yield Finding("averaged over parts", "bug", f"{mistake}: {what}", _SUMS)
            continue
        what, remedy = _KNOWN[mistake]
        if mistake in _SCALED.values():
            what += _times(fit, probes)
        if entry.form == "k1" and mistake == "roles of the policies swapped":
            what = "it is the mean log ratio, minus k1"
        yield Finding(mistake, "bug", what + _above(entry, values, probes), remedy)
    if like is None and entry.divisor == "count":
        what = "a sum" + _times(fit, probes)
        remedy = "as asyncsim and papers have it, divide by the number of what is added: ESS/N, a mean KL"
        remedy += "; with like it is a bug unless allow has this name"
        yield Finding(UNDIVIDED, "note", what, remedy)
    if entry.of == "geometric" and entry.family == "ess":
        what = "the mean of log ratios, in place of their sum, hides length"
        yield Finding("geometric mean", "hazard", what, "sum log ratios along a row")
    if entry.family == "ess" and entry.of in _BLIND:
        yield Finding("scope", "note", _BLIND[entry.of], "log the ESS of sequence ratios beside it")


UNDIVIDED = "not divided by the count"
_SCALED = {"count": UNDIVIDED, "percent": "in percent"}


def _times(fit: Fit, probes: Sequence[Batch]) -> str:
    """Exact factor relative to the requested metric, on the first batch where that is not 0."""
    entry, pair = fit
    pairs = zip(*(numbers(one, pair, probes) for one in (entry, replace(entry, divisor=""))), probes, strict=True)
    found = next(((a, b, probe.name) for a, b, probe in pairs if b and not math.isnan(b)), None)
    if found is None:
        return ""
    value, share, name = found
    return f": on '{name}' {value:.6g} for {share:.6g}, {value / share:.6g} times"


def _titles(entry: Entry, like: str | None, signed: bool) -> Iterator[str]:
    """Names of the mistakes."""
    if like and entry.divisor in _SCALED:
        yield _SCALED[entry.divisor]
    if entry.of in catalogue.MIXED:
        yield "levels mixed"
    if entry.family == "ess" and entry.form == "population" and like != name(entry):
        yield "not self-normalized"
    if entry.clamp and entry.family == "ess" and like != name(entry):
        yield "weights clamped before the ESS"
    if entry.form == "reversed" and entry.family == "clip":
        yield "sign of the clip reversed"
    if entry.family == "clip" and entry.form in ("outside", "above", "below") and signed and like != name(entry):
        yield "advantage's sign ignored"
    reversals = {"ess": "log ratio reversed", "age": "staleness reversed"}
    ratio = entry.form in ("weight", "chi_square")
    for mistake in entry.mistakes:
        if mistake == "reversed":
            yield "log ratio reversed" if ratio else reversals.get(entry.family, "roles of the policies swapped")
        else:
            yield "padded tokens counted" if mistake.startswith("padded tokens counted") else mistake


def _above(entry: Entry, values: Sequence[float], probes: Sequence[Batch]) -> str:
    """Evidence that a fraction of samples is reported above 1."""
    if entry.family != "ess" or entry.divisor in ("count", "percent", "divided by rows"):
        return ""
    # The plainest batches come last.
    above = [(value, probe.name) for value, probe in zip(values, probes, strict=True) if value > 1.0001]
    return "; it reports {:.4g} on '{}' where 1 is the limit".format(*above[-1]) if above else ""


def edges(subject: Subject, fit: Fit, probe: Batch, tolerance: float) -> Iterator[Finding]:
    """Edge cases, common in training, in which a metric departs from its catalogue entry."""
    entry, pair = fit
    for case, title, kind, remedy in _cases(entry, probe, pair, subject.masked):
        wide, most = case.name.startswith("log ratios of 50"), 0.01 if title == "absolute epsilon" else tolerance
        ours = numbers(entry, pair, [case])[0]
        narrow = case.but(case.name, logs={policy: x.astype(np.float32) for policy, x in case.logs.items()})
        theirs = quietly(subject, narrow if wide else case)
        # Far out a clamp is no mistake, but a number that is broken, or 1 because it broke.
        broken = math.isnan(theirs) or same(theirs, 1.0, 1e-3)
        if same(ours, theirs, most) or (wide and not broken):
            continue
        yield Finding(title, kind, f"{_shown(theirs)} on '{case.name}', where it is {_shown(ours)}", remedy)
    if pair is None and "versions" in subject.roles.values():
        yield from _unknown(subject, fit, probe, tolerance)


def _cases(entry: Entry, probe: Batch, pair: Pair, masked: bool) -> Iterator[tuple[Batch, str, str, str]]:
    """Edge-case batches, each with the finding's name if the function differs, and the remedy."""
    hidden, first = ~probe.mask, np.zeros_like(probe.mask)
    first[0, 0] = True
    if masked:
        yield probe.but("one token", mask=first), "one token", "hazard", "leave out rows without tokens"
    if pair is None:
        return
    normalized = entry.family == "ess" and entry.form != "population" and not entry.clamp
    if normalized:
        equal = probe.but("equal weights of 1e-6", logs={k: 0 * x - 40.0 for k, x in probe.logs.items()})
        equal = equal.moved("equal weights of 1e-6", math.log(1e-6), **{pair[0]: 1.0})
        yield equal, "absolute epsilon", "hazard", "leave out the epsilon, or work with log weights"
        step = np.where(np.arange(probe.mask.shape[1]) % 2, 50.0, -50.0)
        far = probe.moved("log ratios of 50 in float32", step + 0.0 * probe.mask, **{pair[0]: 1.0})
        yield far, "overflow", "hazard", "subtract the largest log weight before exp"
    if entry.family == "mean" and not entry.mask:
        step = 15.0 - 30.0 * (np.arange(probe.mask.shape[1]) % 2)
        far = probe.moved("log ratios of 15", step + 0.0 * probe.mask, **{pair[0]: 1.0})
        yield far, "limited far out", "note", "say beside the number where it is limited"
    if not masked:
        return
    empty = probe.mask & (np.arange(len(probe.mask)) != 1)[:, None]
    yield probe.but("a row without tokens", mask=empty), "a row without tokens", "hazard", "leave out such rows"
    if not entry.mask:
        broken = {k: np.where(hidden, np.nan, x) for k, x in probe.logs.items()}
        yield probe.but("NaN behind the mask", logs=broken), "masked NaN", "hazard", "select by where, not by a product"


def _unknown(subject: Subject, fit: Fit, probe: Batch, tolerance: float) -> Iterator[Finding]:
    """Findings for tokens with unknown version, -1."""
    gap = probe.mask & (np.arange(len(probe.mask)) % 3 == 1)[:, None]
    # Excluded tokens and a broken number are both honest.
    excluded = numbers(fit.entry, None, [probe.but("", mask=probe.mask & ~gap)])[0]
    remedy = "leave out tokens without a version, or report NaN"
    for unknown in (-1.0, math.nan):
        versions = np.where(gap, unknown, probe.versions)
        found = quietly(subject, probe.but("", versions=versions.astype(int) if unknown == -1.0 else versions))
        if math.isnan(found) or same(found, excluded, tolerance):
            continue
        others = [probe.but("", versions=np.where(gap, x, probe.versions)) for x in (unknown, probe.trained)]
        counted, zero = numbers(fit.entry, None, others)
        if same(found, zero, tolerance):
            evidence = f"a version of {unknown:g} reads as fresh"
            yield Finding("unknown versions read as staleness 0", "bug", evidence, remedy)
            return
        if same(found, counted, tolerance):
            yield Finding("unknown versions counted", "hazard", f"a version of {unknown:g} enters as data", remedy)


def _shown(value: Any) -> str:
    return "not a number" if math.isnan(value) else f"{value:.4g}"


@calls.named
def check_metric(
    fn: Callable[..., Any],
    like: str | None = None,
    *,
    key: str | int | None = None,
    micro_batch: int | None = None,
    allow: str | Sequence[str] = (),
    strict: bool = False,
    tolerance: float = 1e-4,
    seed: int = 0,
    check: bool = False,
) -> MetricReport:
    """Compare a metric's values on a few batches with every metric in the catalogue, right and wrong.

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
    allow = refuse_settings(tolerance, 0.1, seed, allow, NAMES, strict=strict, check=check)
    if micro_batch is not None:
        checks.integer("micro_batch", micro_batch, 1, "give the rows of a micro-batch")
    if like is not None:
        like = str(getattr(like, "name", like)).replace("-", "_")
        # The plain names first.
        plain = sorted(METRICS, key=lambda each: each.endswith(tuple(word for word, _ in _OF.values() if word)))
        remedy = "a plain name is of sequence ratios, with _token of token ratios; asyncsim list like has them all"
        remedy = checks.advice(like, "like", otherwise=remedy)
        if like not in METRICS and (several := [each for each in plain if each.startswith(f"{like}_")]):
            remedy = f"take {', '.join(several[:3])}, ...; {remedy}"
            raise checks.InputError("like", like, "the name of a metric", remedy)
        checks.one_of("like", like, plain, remedy)
    report = _tried(Subject(fn, key, micro_batch), like, allow, strict, tolerance, seed)
    return report.raise_for_failure() if check else report


def _tried(subject: Subject, *asked: Any) -> MetricReport:
    """The report; of ratios alone nobody knows whether they are of tokens or of rows: what conforms, else of tokens."""
    rows = None
    if {*subject.roles.values()} <= {*RATIOS[:2]}:
        with suppress(checks.InputError):
            rows = _compared(Subject(subject.fn, subject.key, subject.micro_batch, "row"), *asked)
    try:
        report = _compared(subject, *asked)
    except checks.InputError:
        if rows is None:
            raise
        return rows
    if rows is None or report.conforms or not (rows.conforms or rows.name == rows.like):
        return report
    bugs = f"of tokens, [B, T], it has the bugs: {', '.join(report.bugs) or 'none'}"
    remedy = "name it sequence_ratio, or for tokens add an argument mask"
    note = Finding("of rows", "note", f"taken for one weight a row, [B]; {bugs}", remedy)
    return replace(rows, findings=(*rows.findings, note))


def _compared(
    subject: Subject, like: str | None, allow: Sequence[str], strict: bool, tolerance: float, seed: int
) -> MetricReport:
    probes = search.batches(seed, subject.masked)
    values = [subject.ask(probe) for probe in probes]
    again = subject.ask(probes[0])
    remedy = "seed or leave out what is random, and keep no state between calls"
    checks.require(same(again, values[0], 1e-12), "metric", (values[0], again), "the same number twice", remedy)
    still = all(same(value, values[0], tolerance) for value in values)
    # What no ordinary batch moves may be a share beyond their log ratios.
    found = [one for one in search.fits(subject, values, seed, tolerance) if not still or one.entry.family == "clip"]
    named = [fit for fit in found if name(fit.entry) == like] or found
    best = named[0] if named else None
    findings = []
    if still and best is None:
        remedy = "look for an ESS of single samples, or for a policy that is compared with itself"
        findings.append(Finding("constant", "bug", f"{_shown(values[0])} on every batch", remedy))
    if best:
        signed = "advantages" in subject.roles.values()
        findings = [*known(best, values, probes, like, signed), *edges(subject, best, probes[1], tolerance)]
    counted = any(finding.counts(allow, strict) for finding in findings)
    right = best is not None and like in (None, name(best.entry))
    target = best if right else search.nearest(subject, values, seed, lambda e: like in (None, name(e)))
    # The first batch on which the function has another number.
    difference = ""
    if target and not right:
        rows = zip(probes, numbers(*target, probes), values, strict=True)
        texts = (f"{p.name}: expected {x:.6g}, found {v:.6g}" for p, x, v in rows if not same(x, v, tolerance))
        difference = next(texts, "")
    unchecked = () if subject.masked else ("what a mask would hide, for it takes none: give it generated tokens only",)
    return MetricReport(
        conforms=right and not counted, name=name(best.entry) if best else "unknown", like=like,
        words=words(best) if best else "",
        same=tuple(dict.fromkeys(", ".join([words(fit), *fit.entry.mistakes]) for fit in named[1:])),
        nearest=f"{name(target.entry)}: {words(target)}" if target else "", difference=difference,
        findings=tuple(findings), arguments=subject.notes, unchecked=unchecked,
    )  # fmt: skip
