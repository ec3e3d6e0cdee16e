"""Findings of a check: a value to read, print or raise."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from asyncsim.base import calls, checks


def refuse_settings(
    tolerance: float, most: float, seed: int, allow: str | Sequence[str], names: Collection[str], **flags: bool
) -> tuple[str, ...]:
    """Refuse invalid settings of a check: tolerance above `most`, seed, flags, and findings, which are returned."""
    for field, value in flags.items():
        checks.boolean(field, value, "say whether")
    checks.real("tolerance", tolerance, "give the largest relative deviation", 0.0, most, open_low=True)
    checks.integer("seed", seed, 0, "give a whole number")
    allow = (allow,) if isinstance(allow, str) else tuple(allow)
    for each in allow:
        checks.one_of("allow", each, names, checks.advice(each, "allow", otherwise="name findings as a report does"))
    return allow


class ConformanceError(AssertionError):
    """Raised when a component breaks a rule; `report` holds all findings."""

    def __init__(self, report: Any) -> None:
        self.report = report
        super().__init__(str(report))

    def __reduce__(self) -> tuple[Any, ...]:
        # The default rebuild would pass the text as the report.
        return type(self), (self.report,)


@dataclass(frozen=True)
class Failure:
    """One broken rule of a controller: `value` instead of `bound`, after a minimal list of `events`.

    `likely`: known mistakes whose capacity the controller gave at every step of long random runs; () where it gave that
    of none, so that the mistake is unknown, None where nobody looked.
    """

    rule: str
    message: str
    value: Any
    bound: Any
    events: tuple[str, ...]
    likely: tuple[str, ...] | None = None

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.message}"]
        lines += [f"  {number}. {event}" for number, event in enumerate(self.events, 1)] or ["  (before any event)"]
        if self.likely is not None:
            lines.append(f"behaves like: {'; or: '.join(self.likely) or 'no known mistake (unknown)'}")
        return "\n".join(lines)


class Checked(calls.Told):
    """Base of all reports: a report is true if it `passed`."""

    passed: bool

    def __bool__(self) -> bool:
        return self.passed

    def raise_for_failure(self) -> Self:
        """This report; raises `ConformanceError` if the component breaks a rule or does not conform."""
        if not self.passed:
            raise ConformanceError(self)
        return self


@dataclass(frozen=True)
class Report(Checked):
    """Result of a controller check over `examples` random runs; `unchecked` lists what the runs left out, and why.

    `without_losses`: what becomes of a controller whose failing run loses groups where none, or fewer, are lost, and
    of one without `recovered` whose failing run has a crash, where there are none.
    `uncalled`: methods that no call of the protocol reaches, what they sound like, and what becomes of them then.
    """

    passed: bool
    examples: int
    settings: Mapping[str, Any]
    unchecked: tuple[str, ...] = ()
    failure: Failure | None = None
    without_losses: tuple[str, ...] = ()
    uncalled: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return everything as plain values, with the values of a failure as text."""
        broken = self.failure
        texts = None if broken is None else vars(broken) | {"value": str(broken.value), "bound": str(broken.bound)}
        return vars(self) | {"settings": dict(self.settings), "failure": texts}

    def __str__(self) -> str:
        settings = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        head = f"{'passed' if self.passed else 'failed'} in {self.examples} runs with {settings}"
        failure = [] if self.failure is None else [str(self.failure)]
        lines = [head, *self.uncalled, *failure, *self.without_losses]
        return "\n".join(lines + [f"unchecked: {each}" for each in self.unchecked])


ROUNDED = 1e-12
"""Deviations up to this are rounding of float64."""
KINDS = ("bug", "hazard", "note")
_NEW = "to test a new loss, write its formula with detached weights as by_hand: like=by_hand, or --like my.py:by_hand"
_KINKS = 16
"""Lines on kinks, at most."""
_NEAR = 0.25
"""Share of tokens whose weight a method must give to be called the nearest."""


def shown(value: Any) -> str:
    """Format a setting as written in a call, fractions with at most four digits."""
    if not isinstance(value, float):
        return repr(value)
    short = f"{value:.4g}"
    return repr(value) if float(short) == value else short


def called(name: str, settings: Mapping[str, Any]) -> str:
    """Format the call of a function with these settings; masks and penalties appear as their own calls."""
    calls = ("penalties", "factors")
    return f"{name}({', '.join(f'{k}={v if k in calls else shown(v)}' for k, v in settings.items())})"


@dataclass(frozen=True)
class Finding(calls.Told):
    """A known property or mistake that a tested function shows.

    `kind`: "bug", the gradient is not what it is meant to be on ordinary input; "hazard", it breaks on input that a
    trainer may meet; "note", a property to know of.
    """

    name: str
    kind: str
    evidence: str
    remedy: str

    def counts(self, allow: Collection[str], strict: bool) -> bool:
        """Whether the finding prevents conformance: a bug, or with `strict` a hazard, unless `allow` lists it."""
        return self.name not in allow and (self.kind == "bug" or (strict and self.kind == "hazard"))

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}: {self.evidence}; {self.remedy}"


@dataclass(frozen=True)
class Match:
    """Distance of a method from a loss: `score`, mean deviation of its score weights from 0 (equal) to 1 (unrelated);
    `largest`, the maximum over tokens, relative to the larger of both weights; `agrees`, the fraction of tokens with
    equal weight."""

    method: str
    settings: Mapping[str, Any]
    score: float
    largest: float

    around: str = ""
    """What stands in the place of what the method names."""
    times: str = ""
    """What multiplies its weights, in words."""
    agrees: float = 0.0

    @property
    def label(self) -> str:
        """The call that makes the method."""
        return f"{called(self.method, self.settings)} {self.around}".rstrip()


@dataclass(frozen=True)
class Disagreement:
    """The first token whose weight differs; `expected` and `found` are -dL/d log_prob in the loss's scale."""

    probe: str
    sequence: int
    token: int
    expected: float
    found: float

    def __str__(self) -> str:
        where = f"{self.probe}, sequence {self.sequence}, token {self.token}"
        return f"{where}: expected {self.expected:.6g}, found {self.found:.6g}"


@dataclass(frozen=True)
class BiasRow:
    """Exact gradient moments over all batches of a small task, at one displacement of the behavior policy.

    `bias` |mean - exact| / |exact|, `variance` total over |exact|^2, `cosine` of mean and exact gradient; of the loss
    (in the scale of its match) and of the method beside it.
    """

    task: str
    samples: int
    displacement: float
    bias: float
    variance: float
    cosine: float
    method_bias: float
    method_variance: float
    method_cosine: float

    @property
    def same(self) -> bool:
        """Whether the loss and the method have equal gradient moments."""
        return all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) for _, a, b in self._pairs)

    @property
    def _pairs(self) -> list[tuple[str, float, float]]:
        return [(name, getattr(self, name), getattr(self, f"method_{name}")) for name in ("bias", "variance", "cosine")]

    def line(self, beside: bool) -> str:
        """Format the gradient moments of the row as text."""
        numbers = [f"{name} {a:.4g}" + (f" [{b:.4g}]" if beside else "") for name, a, b in self._pairs]
        return f"  {self.task}, N = {self.samples}, displacement {self.displacement:g}: {'  '.join(numbers)}"


class Judged(Checked):
    """Common fields of reports on a user's function: whether it conforms, and the findings."""

    conforms: bool
    like: str | None
    findings: tuple[Finding, ...]

    def _verdict(self, other: bool) -> tuple[str, str]:
        """First line, and an addition to what the function is; `other` says that it is not the requested one."""
        like = f" {'like' if self.conforms else 'from'} {self.like}" if self.like else ""
        but = "" if self.conforms or other else f", but for the {'bugs' if self.bugs else 'hazards'} below"
        return f"{'conforms' if self.conforms else 'deviates'}{like}", but

    @property
    def passed(self) -> bool:  # type: ignore[override]
        """Same as `conforms`, under the name used in reports of other checks."""
        return self.conforms

    @property
    def bugs(self) -> tuple[str, ...]:
        """Names of the bugs among the findings."""
        return tuple(finding.name for finding in self.findings if finding.kind == "bug")

    def shows(self, name: str) -> bool:
        """Whether the findings include one with this name."""
        return any(finding.name == name for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries."""
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True)
class LossReport(Judged):
    """Result of `check_loss`: the method that a loss implements, its bias, and known mistakes.

    `conforms`: every token of every batch has the gradient of the asked method (or of some method), and there is no bug
    that was not allowed. `name`: the best match; `same`: other methods with the same gradient there;
    `scale`: factor of the loss over that method; `aggregator`, `anchor`, `coupling`: how tokens are averaged, which
    log-probs ratios refer to, and how far one token's ratio reaches; `distance`: largest deviation of a token from the
    asked (or nearest) method, like `match.largest`; `compared`: the anchor that was chosen for the asked method, and
    why, where it is not its own; `arguments`: which argument was given which tensor, where that is not plain;
    `excepted`: batches beyond the ordinary ones on which the method is another; `unchecked`: what was not probed, and
    the methods that were not compared (`uncompared`); `omitted`: why there are no moments.
    """

    conforms: bool
    name: str
    like: str | None
    match: Match
    same: tuple[str, ...]
    scale: float
    aggregator: str
    anchor: str
    coupling: str
    kinks: tuple[str, ...]
    disagreement: Disagreement | None
    findings: tuple[Finding, ...]
    bias: tuple[BiasRow, ...]
    unchecked: tuple[str, ...] = ()
    distance: float = 0.0
    compared: str = ""
    omitted: str = ""
    arguments: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()
    guessed: bool = False
    """Whether it deviates with tensors that went to arguments by position, so that none of it may be a bug."""

    def record(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries."""
        return super().record() | {"match": asdict(self.match) | {"label": self.match.label}}

    def __str__(self) -> str:
        return "\n".join([*self.heading(), *(str(finding) for finding in self.findings), *self.ending()])

    def heading(self) -> list[str]:
        """The verdict on the loss: whether it conforms, to which method, and its bugs."""
        verdict, bugs = self._verdict(self.disagreement is not None)
        if self.name != "unknown":
            but = f", but for {' and '.join(self.excepted)}" if self.excepted else ""
            far = f"{self.match.largest:.1e}" if self.match.largest > ROUNDED else "only rounding"
            matched = f"is {self.match.label}{but}{bugs} (maximum deviation of a token: {far})"
        else:
            share = f"{math.floor(100.0 * self.match.agrees)}% of the tokens have its weight"
            near = f"the nearest, {self.match.label}; {share}" if self.match.agrees >= _NEAR else "every known method"
            matched = f"is unknown: a token deviates by {self.match.largest:.2g} of its weight from {near}"
        new = "" if self.like or self.name != "unknown" else " from every known method: it is new, or has a bug"
        new = ", with a mean over padding" if self.conforms and self.shows("mean over padding") else new
        lines = [f"{verdict}{new}", matched]
        if self.guessed:
            wrap = "def checked(log_prob, old_log_prob, advantages, mask): return YOURS(...)"
            lines[:1] = [
                "undecided: the names of its arguments do not say which tensor each is",
                f"taken {'; '.join(self.arguments)}; where that is wrong, write {wrap} in your file, and name checked",
            ]
        lines += [f"bugs: {'; '.join(self.bugs)}"] if self.bugs else []
        lines += [_NEW] * (self.name == "unknown" and not (self.like or self.bugs or self.guessed))
        times = self.match.times if self.name != "unknown" else ""
        lines += [f"weights are those of the method times {times}"] if times else []
        lines += [f"denominator: {self.aggregator}"] if " " in self.aggregator else []
        lines += [f"compared with {self.compared}"] if self.compared else []
        lines += [f"arguments {line}" for line in self.arguments if not self.guessed]
        if self.like and self.disagreement:
            lines.append(f"maximum deviation of a token from {self.like}: {self.distance:.2g}")
        return lines + ([f"first disagreement: {self.disagreement}"] if self.disagreement else [])

    def ending(self) -> list[str]:
        """Lines on measured kinks and moments, and on what was not checked."""
        lines = [f"same gradient: {', '.join(self.same)}"] if self.same else []
        terms = f"aggregator: {self.aggregator}; anchor: {self.anchor}; coupling: {self.coupling}"
        lines.append(f"{terms}; scale: {self.scale:.6g}")
        lines += [f"measured: {kink}" for kink in self.kinks[:_KINKS]]
        lines += [f"measured: {len(self.kinks) - _KINKS} more of these"] if len(self.kinks) > _KINKS else []
        if self.bias:
            same = all(row.same for row in self.bias)
            other = f"in brackets those of {self.like or self.match.label}"
            beside = "those of the method are the same" if same else other
            first = "exact moments in the first update of a batch (pi_prox = pi), relative to the exact gradient"
            lines += [f"{first}; {beside}:", *(row.line(not same) for row in self.bias)]
            contains = "it contains the advantage's 1/N and the aggregator's scale"
            lines.append(f"  bias at displacement 0 is not staleness: {contains}")
        lines += [f"no moments: {self.omitted}"] if self.omitted else []
        rest = [each for each in self.unchecked if each not in self.uncompared]
        lines += [f"unchecked: {'; '.join(rest)}"] if rest else []
        names = ", ".join(each.partition(":")[0] for each in self.uncompared)
        return lines + ([f"methods not compared: {names}"] if names else [])


@dataclass(frozen=True)
class MetricReport(Judged):
    """Result of `check_metric`: the metric that a function computes, and known mistakes.

    `conforms`: it gives the numbers of the asked metric (or of some metric), and there is no bug that was not allowed.
    `name`: the metric, "unknown" where there is none; `words`, what it is in words; `same`: other metrics with the same
    numbers on all batches; `nearest` and `difference`: the metric that it is not, and the first batch where it differs;
    `arguments`: which argument was given what; `unchecked`: what was not probed.
    """

    conforms: bool
    name: str
    like: str | None
    words: str
    same: tuple[str, ...]
    nearest: str
    difference: str
    findings: tuple[Finding, ...]
    arguments: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __str__(self) -> str:
        verdict, bugs = self._verdict(self.like not in (None, self.name))
        if self.conforms and self.like is None and self.shows("not divided by the count"):
            verdict += ", but for its divisor: it is not divided by N"
        verdict += ", where it is given one weight a row" if self.conforms and self.shows("of rows") else ""
        lines = [
            verdict,
            f"is {self.name}{bugs}: {self.words}" if self.words else f"is none of these; nearest {self.nearest}",
        ]
        lines += [f"asked for {self.nearest}"] if self.words and self.difference else []
        lines += [f"first difference: {self.difference}"] if self.difference else []
        lines += [str(finding) for finding in self.findings]
        lines += [f"same numbers: {'; '.join(self.same)}"] if self.same else []
        lines += [f"arguments {line}" for line in self.arguments]
        return "\n".join(lines + [f"unchecked: {each}" for each in self.unchecked])


class AdvantageReport(MetricReport):
    """Result of `check_advantage`: the advantage that a function computes; fields as in `MetricReport`."""
