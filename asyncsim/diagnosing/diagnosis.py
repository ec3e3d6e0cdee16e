"""`diagnose` answers every question on a run's telemetry; `log_law` answers one question on a trainer's log."""

from __future__ import annotations

import textwrap
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base import calls, checks
from asyncsim.base.notation import plural
from asyncsim.diagnosing import ages, aliases, gradients, mismatch, returns, sizes
from asyncsim.diagnosing.findings import HARMLESS, LEVEL, VERDICTS, Draft, Finding, missing, settle
from asyncsim.diagnosing.telemetry import Setup, Telemetry, read

if TYPE_CHECKING:
    from asyncsim.schedules._log_versions import Log

IDENTITY = "systems/mean-staleness-identity"
QUESTIONS = (ages.distribution, ages.stamps, mismatch.floor, mismatch.fresh, mismatch.drift, mismatch.mean_ratio,
    sizes.shown, sizes.named, sizes.tail, gradients.cosine, gradients.boundary, sizes.direction,
    returns.fall)  # fmt: skip
"""Functions from telemetry to a draft of a finding, or to None where the question does not arise."""
FIRST = ("impossible values", "sign of k1", "stamps of staleness", "reward")
"""Questions whose findings come before others: with wrong numbers no other finding stands, and a fall costs the run."""
ORDER = ("differs", "as predicted", "cannot tell")


@dataclass(frozen=True)
class Diagnosis(calls.Told):
    """Findings of one run; `columns` maps a quantity to its column and to what each of its values averages over.

    `unknown` maps columns that were not understood to known names of similar spelling. `refused` maps known columns
    that were not used to the reason. `idle`: columns that only the question "impossible values" uses.
    """

    findings: tuple[Finding, ...]
    columns: dict[str, tuple[str, str]]
    unknown: dict[str, list[str]]
    refused: dict[str, str]
    steps: int
    level: float = LEVEL
    idle: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings per verdict."""
        counted = Counter(each.verdict for each in self.findings)
        return {name: counted[name] for name in VERDICTS}

    @property
    def causes(self) -> list[str]:
        """Causes of the findings that differ from theory, each cause once, the most important first."""
        return list(dict.fromkeys(each.cause for each in self.ordered if each.verdict == "differs"))

    @property
    def ordered(self) -> list[Finding]:
        """Findings sorted: first those that differ from theory, and among them first those on which others depend."""
        rank = {question: place for place, question in enumerate(FIRST)}
        return sorted(self.findings, key=lambda each: (ORDER.index(each.verdict), rank.get(each.question, len(rank))))

    @property
    def health(self) -> str:
        """Statement on columns whose level has no verdict, and what is judged instead; "" without such columns."""
        grown = [each.question.removeprefix("growth of ") for each in self.findings if each.question[:6] == "growth"]
        named = [c for n, (c, _) in self.columns.items() if n == "ess_clamped" and c not in self.idle]
        by = {"growth judges": grown, "the definition judges": named, "impossible values judge": list(self.idle)}
        parts = [f"only {what} {', '.join(columns)}" for what, columns in by.items() if columns]
        return f"No verdict on health: {'; '.join(parts)}." if parts else ""

    @property
    def missing(self) -> str:
        """What to log to answer the open questions, in the trainer's own names if its columns are known."""
        left = list(dict.fromkeys(each.action for each in self.findings if each.verdict == "cannot tell"))
        if near := aliases.ours((*self.refused, *self.unknown), self.columns):
            return f"Name columns: --columns {','.join(near)}."
        if len(left) == 1 or {"sampler", "trainer", "staleness"} <= {*self.columns}:
            return left[0]
        trainer, lacking = aliases.beside([*(name for name, _ in self.columns.values()), *self.refused], self.columns)
        more = f"the {trainer} metric{'s' * (len(lacking) > 1)} {', '.join(lacking)}, or " if lacking else ""
        return f"Log {more}one row per token (--tokens) with sampler_log_prob, trainer_log_prob and staleness."

    def json(self) -> dict[str, Any]:
        """All findings of the diagnosis as values that JSON can store."""
        about = {name: getattr(self, name) for name in ("unknown", "refused", "idle", "steps", "level")}
        columns = {name: {"column": c, "scope": s} for name, (c, s) in self.columns.items()}
        return {"findings": [each.row() for each in self.findings], "columns": columns, **about, "counts": self.counts}

    def text(self, width: int = 100, verbose: bool = False) -> str:
        """Findings as text, one line each, then their numbers; `verbose` adds open questions and columns."""
        counts = [f"{n} {name if n == 1 else name.removesuffix('s')}" for name in ORDER for n in (self.counts[name],)]
        lines = [f"{plural(self.steps, 'step')}: {', '.join(counts)}"]

        def add(text: str, depth: int = 0) -> None:
            wrapped = textwrap.wrap(text, width - 2 * depth - 2, break_long_words=False, break_on_hyphens=False)
            lines.extend("  " * (depth + (place > 0)) + line for place, line in enumerate(wrapped))

        add(self.health)
        told = [x for x in self.ordered if verbose or x.verdict != "cannot tell" or x.measured is not None]
        for each in told:
            add(f"{each.verdict}: {each.question}{f' ({each.cause})' if each.cause else ''}")
        if left := len(self.findings) - len(told):
            lines.append(f"cannot tell: {plural(left, 'question')} (-v shows them)")
        for each in told:
            lines += ["", f"{each.question}:"]
            add(f"{each.sentence}{f' [{each.claim}]' * (each.claim != 'definition')}", 1)
            if each.verdict != "as predicted" or each.action != HARMLESS:
                add(f"To do: {each.action}", 1)
        lines.append("")
        add(f"To answer more: {self.missing[0].lower()}{self.missing[1:]}" * bool(left))
        add("" if verbose else f"Columns: {len(self.columns)} read, {len(self.refused)} not used (-v lists them).")
        for title, columns in self._columns()[0 if verbose else 2 :]:
            lines += [title] * bool(columns)
            for column in columns:
                add(column, 1)
        return "\n".join(lines)

    def _columns(self) -> list[tuple[str, list[str]]]:
        """Columns that were read, known but not used (grouped by reason), and unknown."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.refused.items():
            reasons.setdefault(reason, []).append(name)
        read = [f"{column}: {name.partition(' ')[0]}, of {scope}" for name, (column, scope) in self.columns.items()]
        known = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        others = [f"{name} (near {' or '.join(near)})" if near else name for name, near in self.unknown.items()]
        say = "columns not known (say what one is with --columns kl_k3=NAME):"
        return [("columns read:", read), ("columns known, and not used:", known), (say, others)]

    def __str__(self) -> str:
        return self.text()


@calls.named
def diagnose(
    telemetry: Any,
    *,
    tokens: Any = None,
    batch: float | None = None,
    staleness: Any = None,
    learning_rate: float | None = None,
    curvature: float | None = None,
    momentum: float | None = None,
    cap: float | None = None,
    floor: float = 1e-3,
    columns: Any = None,
    run: str | None = None,
) -> Diagnosis:
    """Compare the metrics that a run has logged with theory: each question has a verdict, an interval and a claim.

    Verdicts are *as predicted*, *differs* and *cannot tell*. In a healthy run, the probability that any finding
    *differs* is at most 0.002, by Holm's correction over all questions. The 95 percent intervals of means over steps
    come from the spread between stretches of consecutive steps.

    Arguments: `telemetry`, columns by name, or the path of a .csv, .jsonl or .parquet file. A row is a step (names in
    docs/diagnose.md) or a token. A token's row has log-probs of sampler and trainer in nats, step, staleness in
    versions, sequence, mask; a cell may be a list. NaN is an empty cell in a table of pandas, and a finding elsewhere.
    `tokens`: a second table, of tokens, if the first has steps. `batch`: number of weights in the logged ESS.
    `staleness`: the expected staleness, as 4, "constant:4", "sawtooth", "uniform", "geometric" or "capped".
    `learning_rate` and `curvature`, positive: their product is a pure number. `momentum` in [0, 1), of the logged
    gradients. `cap` >= 1: the clamp of the logged ESS. `floor`: variance in nats^2 that sampler and trainer may differ
    by on fresh tokens. `columns`: asyncsim's names for columns of other names, as "kl_k3=my/kl". `run`: the run to
    read, if the file of a W&B chart has several. Returns a `Diagnosis`. Raises `InputError` that names column and row
    of what cannot be read. Assumes a run that is steady over stretches of a twenty-fourth of its steps. Source: this
    package; each finding names its claim.

    >>> import asyncsim as sim
    >>> log = {"step": range(9, 49), "rl/ess": [0.9, 0.95] * 20, "staleness_min": [2] * 40, "staleness_max": [2] * 40}
    >>> found = sim.diagnose(log, batch=512, staleness=2)
    >>> found.findings[0].verdict, found.findings[0].cause
    ('as predicted', 'constant staleness')
    >>> sim.diagnose(log | {"rl/ess": [1.25] * 40}).causes
    ['ESS above one']
    """
    batch, expected = _positive("batch", batch, 1.0), expected_law(staleness)
    rate, curve = _positive("learning_rate", learning_rate), _positive("curvature", curvature)
    if momentum is not None:
        remedy = "give the share of the last update that is kept"
        given, momentum = momentum, checks.real("momentum", momentum, remedy, 0.0, 1.0)
        checks.require(momentum < 1.0, "momentum", given, "below 1", remedy)
    cap, floor = _positive("cap", cap, 1.0), checks.real("floor", floor, "give a variance in nats^2", 0.0)
    log = read(telemetry, tokens, Setup(batch, expected, rate, curve, momentum, cap, floor), columns, run)
    if (rate is None) != (curve is None):
        alone = f"{'learning_rate' if curve is None else 'curvature'} is not used alone"
        words = f"{alone}: give both learning_rate and curvature, whose product has a boundary"
        warnings.warn(checks.RunWarning(words), stacklevel=3)
    if expected is not None and ages.ages(log) is None:
        lacks = f"staleness = {staleness} is not tested: the log has no staleness of samples; log "
        lacks += "one row per token with `staleness`" if "staleness_min" in log.quantities else "staleness_min and _max"
        warnings.warn(checks.RunWarning(lacks), stacklevel=3)
    if batch is not None and log.tokens is None and "ess" not in log.quantities:
        own = f"only a clamped ESS, {log.names['ess_clamped']}" if "ess_clamped" in log.quantities else "no ESS"
        warnings.warn(checks.RunWarning(f"batch = {batch:g} is not used: the log has {own}"), stacklevel=3)
    used = {name: (column, log.scope.get(name, "tokens")) for name, column in log.names.items()}
    findings = tuple(settle(drafts(log)))
    idle = tuple(log.names[name] for name in log.quantities if name in {*log.names} - log.used - {"step"})
    return Diagnosis(findings, used, dict(log.unknown), dict(log.refused), log.steps, idle=idle)


def drafts(run: Telemetry) -> list[Draft]:
    """Answer every question for this telemetry, before p-values are corrected."""
    answered = list[Draft]()
    for question in QUESTIONS:
        before, draft = {*run.used}, question(run)
        answered += [] if draft is None else [draft]
        if draft is None or draft.p is None:
            run.used.intersection_update(before)
    return [*answered, *returns.grown(run), *sizes.impossible(replace(run, used=set()))]


def _positive(name: str, value: float | None, low: float = 0.0) -> float | None:
    if value is None:
        return None
    return checks.real(name, value, "give a positive number", low, open_low=low == 0.0)


def expected_law(value: Any) -> str | None:
    """Validate an expected staleness given as text, or None; raise `InputError` otherwise."""
    if value is None:
        return None
    name, _, number = str(value).partition(":")
    digits = number or (name if name.isdigit() else "0")
    known = name in ("constant", "sawtooth", "uniform", "geometric", "capped") or str(value).isdigit()
    bound = "a number of versions, or constant, sawtooth, uniform, geometric or capped, with :mean"
    known, remedy = known and digits.replace(".", "", 1).isdigit(), "write constant:4, or uniform:4 of mean 4"
    checks.require(known, "staleness", value, bound, remedy)
    return str(value)


def log_law(log: Log, staleness: str | int | None = None) -> Finding:
    """Find the named distribution that the head staleness of a log follows, with batches as steps.

    Candidates and test are those of `diagnose`. Where the log stamps no first token the newest token's staleness
    stands in. One sample of unknown staleness is enough for "cannot tell": those that are known are a selection.

    Arguments: `log`, that of `schedules.replay(..., unknown="keep")`; `staleness`, what is expected, as in `diagnose`.
    Returns a `Finding` in versions, with verdict, 95 percent interval and claim. Raises `InputError` for an
    expectation that is none. Assumes batches long enough apart that stretches of a 24th of them are independent.
    Source: this package.

    >>> import pathlib, tempfile, asyncsim as sim
    >>> rows = [f"{k},{max(k - 2, 0)},{max(k - 2, 0)},{k}" for k in range(40)]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("sample_id,start_version,end_version,train_version\\n" + "\\n".join([*rows, ""]))
    >>> found = log_law(sim.schedules.replay(path, unit="publishes").log)
    >>> found.verdict, found.cause, found.measured
    ('as predicted', 'constant staleness', 2.0)
    """
    expected = expected_law(staleness)
    used = log.samples["trained"]
    head, token = log.samples["head"][used], "first"
    if not np.isfinite(head).any():
        head, token = log.samples["newest"][used], "last"
    unknown = int((~np.isfinite(head)).sum())
    if unknown:
        text = f"The staleness of {unknown} of {len(head)} trained samples is not known."
        draft = missing(ages.QUESTION, IDENTITY, text, "Log start_version of every sample.")
    else:
        batch = log.samples["batch"][used]
        found = ages.after_warm_up(batch, head.astype(np.int64))
        warm = int(batch.max()) + 1 - found.steps
        of = f"versions, of the {token} tokens of {len(found.row)} samples"
        draft = replace(ages.followed(found, expected), unit=f"{of}, without the {warm} batches of the warm-up")
    return settle([draft])[0]
