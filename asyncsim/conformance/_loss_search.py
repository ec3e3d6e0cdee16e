"""Measurements of a loss, the distance of a method from them, and the search for the nearest method."""

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance import _loss_methods as methods
from asyncsim.conformance._loss_parts import REJECTING, UNKNOWN, Divisor, Kink, fewest, tidy
from asyncsim.conformance._loss_probes import Points
from asyncsim.conformance._loss_readings import Reading
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.reports import called
from asyncsim.methods._given import Received
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio

_REFUSED = (checks.InputError, NotImplementedError, KeyError, RuntimeError)
_AT_ONCE = 20_000
"""Tokens that are weighed in one call, at most: what bounds the memory of a search."""
BUDGET = 4_000
"""Calls of methods that a search may make, which bounds its time."""
_NO_EVIDENCE = 1e-7
"""Weights below this share of that at ratio 1 count as 0."""


@dataclass
class Evidence:
    """Measurements of a loss, cotangents on batches and single tokens, and the parts assumed to explain them."""

    probes: Sequence[Probe]
    answers: Sequence[Tensor]
    points: Points
    alone: Tensor
    pair: bool
    divisor: Divisor
    tolerance: float
    separable: bool = False
    penalties: tuple[Any, ...] = ()
    factors: tuple[Any, ...] = ()
    change: methods.Change | None = None
    reading: Reading | None = None
    cache: "dict[str, Fit]" = field(default_factory=dict)
    lines: dict[str, float] = field(default_factory=dict)
    left: list[int] = field(default_factory=lambda: [BUDGET])
    _singles: dict[int, Received] = field(default_factory=dict, init=False)

    @property
    def of(self) -> Callable[[Probe], Probe]:
        """Function that changes a batch as the current interpretation says."""
        return self.reading.of if self.reading else methods.as_given

    @cached_property
    def _stacks(self) -> list[methods.Stack]:
        return methods.stacks(tuple(self.probes), self.of)

    def _alone(self, method: Method, rows: int = 1) -> Tensor:
        """Cotangents of the single tokens for `rows` replicates of a method, `[rows K]`."""
        if rows not in self._singles:
            self._singles[rows] = methods.singles(Points(*(x.repeat(rows) for x in self.points)), self.pair, self.of)
        return methods.expected_alone(method, self._singles[rows])

    def beside(self, **parts: Any) -> "Evidence":
        """The same measurements of the loss, explained with other penalties, factors or method changes."""
        return replace(self, **parts, cache={}, lines={})

    def read(self, reading: Reading, divisor: Divisor) -> "Evidence":
        """The same measurements under an interpretation of the inputs, without tokens that it limits."""
        inside = reading.inside(self.points.probe(False))[:, 0]
        inside[0] = True
        within = max(self.tolerance, reading.within)
        at, alone = self.points.part(inside), self.alone[inside]
        return self.plain().beside(reading=reading, divisor=divisor, tolerance=within, points=at, alone=alone)

    def plain(self) -> "Evidence":
        """The same measurements of the loss, compared with unmodified methods."""
        return self.beside(divisor=UNKNOWN, penalties=(), factors=(), change=None, reading=None)

    def full(self, method: Method) -> Method:
        """A method with the penalties, factors and change that the explanation assumes."""
        method = self.change.of(method) if self.change else method
        if not (self.penalties or self.factors):
            return method
        penalties, factors = (*method.penalties, *self.penalties), (*method.factors, *self.factors)
        return method.replace(penalties=penalties, factors=factors)

    def fit(self, family: methods.Family, settings: Mapping[str, Any]) -> "Fit":
        """Fit of a family's method with these settings to all measurements of the loss."""
        key = _key(family, settings)
        if key in self.cache:
            return self.cache[key]
        self.cache[key] = Fit(family, dict(settings), 2.0, 2.0, 2.0, 1.0, self.divisor)
        method = family.method(settings, self.divisor.aggregator)
        if method is not None:
            self.left[0] -= 5
            with suppress(*_REFUSED):
                self.cache[key] = self.compare(self.full(method), family, dict(settings))
        return self.cache[key]

    def curve(self, family: methods.Family, settings: Mapping[str, Any]) -> float:
        """Mean deviation of a method on single tokens only, which takes a fifth of the work of `fit`."""
        key = _key(family, settings)
        if key not in self.lines:
            self.lines[key] = (self._lines(family.method(settings, self.divisor.aggregator), 1) or [2.0])[0]
        return self.lines[key]

    def scan(self, family: methods.Family, settings: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> list[float]:
        """`curve` for many rows of numbers, each of which replaces some of the settings, in few calls."""
        most, scores = max(_AT_ONCE // len(self.alone), 1), []
        for start in range(0, len(rows), most):
            some, found = rows[start : start + most], None
            if len(some) > 1:
                # Rows along the replicate axis: a number of each for every point.
                columns = {name: np.repeat([row[name] for row in some], len(self.alone)) for name in some[0]}
                method = family.method({**settings, **columns}, self.divisor.aggregator)
                found = self._lines(method, len(some)) if method is not None else None
            # One by one where a method refuses that.
            scores += found or [self.curve(family, {**settings, **row}) for row in some]
        return scores

    def _lines(self, method: Method | None, rows: int) -> list[float] | None:
        """Mean deviations on single tokens for `rows` replicates of a method; None if it refuses the settings."""
        self.left[0] -= 1
        if method is None:
            return None
        try:
            targets = self._alone(self.full(method), rows).reshape(rows, len(self.alone))
        except _REFUSED:
            return None
        scales = torch.tensor([[self._scale(self.alone, row, row)] for row in targets], dtype=targets.dtype)
        return apart(self.alone, scales * targets, self.floor).mean(-1).tolist()

    @property
    def floor(self) -> float:
        """Minimum weight of a single token for comparison."""
        unit = abs(float(self.alone[0]))
        return _NO_EVIDENCE * (unit if 0.0 < unit < np.inf else 1.0)

    def residuals(self, family: methods.Family, settings: Mapping[str, Any]) -> np.ndarray:
        """Smooth relative deviations of a method from the loss on all tokens; the maximum for refused settings."""
        method = family.method(settings, self.divisor.aggregator)
        if method is None:
            generated = sum(int((probe.mask > 0).sum()) for probe in self.probes)
            return np.full(generated + len(self.alone), 3.0)
        self.left[0] -= 1
        theirs, ours = self.both(self.weights(self.full(method)))
        answers, targets = torch.cat(theirs), torch.cat(ours)
        scale = self._scale(answers, targets, ours[-1])
        # Where both are next to nothing there is nothing to fit.
        sizes = [x.abs().clamp(min=1e-3 * float(x.abs().max()) + 1e-300) for x in theirs[:-1]]
        size = torch.cat([*sizes, theirs[-1].abs().clamp(min=1e4 * self.floor)])
        return ((scale * targets - answers) / size).clamp(-3.0, 3.0).nan_to_num(3.0).numpy()

    def weights(self, method: Method) -> list[Tensor]:
        """Cotangents of a method on every batch, and last on the single tokens."""
        return [*methods.expected_on(method, self._stacks), self._alone(method)]

    def both(
        self, weights: Sequence[Tensor], divisor: Divisor | None = None, kept: Sequence[Tensor] | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Cotangents of the loss and of a method: on generated tokens of every batch, and last on single tokens."""
        divisor, kept = divisor or self.divisor, kept or [probe.mask for probe in self.probes]
        masks = [probe.mask > 0 for probe in self.probes]
        # Where nothing is left 0 / 0 is no other weight; it is found by itself.
        answers = [x if bool(k.any()) else x.nan_to_num(0.0) for x, k in zip(self.answers, kept, strict=True)]
        theirs = [x[m] for x, m in zip(answers, masks, strict=True)]
        rows = zip(weights[:-1], self.probes, kept, masks, strict=True)
        ours = [(x * divisor.times(p, k))[m] for x, p, k, m in rows]
        return [*theirs, self.alone], [*ours, weights[-1]]

    def kept(self, method: Method, probes: Sequence[Probe] | None = None) -> list[Tensor]:
        """1 for the tokens of every batch that the method does not reject; a clipped token counts as kept."""
        method = method.replace(weight=NoRatio()) if method.factors else method
        some = methods.stacks(_paid(tuple(probes or self.probes)), self.of)
        return [(x != 0).to(x.dtype) for x in methods.expected_on(method, some)]

    def compare(self, method: Method, family: methods.Family | None = None, own: dict[str, Any] | None = None) -> "Fit":
        """Fit of a method (alone, or as member of a family) to all measurements, scaled at ratio 1."""
        family, values = family or methods.fixed(method), methods.settings_of(method) if own is None else own
        weights = self.weights(method)

        def fit_of(divisor: Divisor, kept: Sequence[Tensor] | None = None) -> Fit:
            theirs, ours = self.both(weights, divisor, kept)
            scale = self._scale(torch.cat(theirs), torch.cat(ours), ours[-1])
            parts = [apart(f, scale * e) for f, e in zip(theirs[:-1], ours[:-1], strict=True)]
            batches, tokens = torch.cat(parts), apart(theirs[-1], scale * ours[-1], self.floor)
            largest = float(torch.maximum(batches.max(), tokens.max()))
            agrees = float((batches <= self.tolerance).double().mean())
            return Fit(family, values, float(tokens.mean()), float(batches.mean()), largest, scale, divisor, agrees)

        fit = fit_of(self.divisor)
        rules = [rule for rule in REJECTING if self.divisor.aggregator in rule.aggregators]
        if fit.exact(self.tolerance) or fit.curve > self.tolerance or self.divisor.rule is not None or not rules:
            return fit
        kept = self.kept(method)
        if all(torch.equal(k, p.mask) for k, p in zip(kept, self.probes, strict=True)):
            return fit
        fits = (fit_of(Divisor(self.divisor.aggregator, rule), kept) for rule in rules)
        return next((one for one in fits if one.exact(self.tolerance)), fit)

    def _scale(self, answers: Tensor, targets: Tensor, alone: Tensor) -> float:
        """Scale factor at ratio 1, where every method has the weight A; else the median ratio of tokens."""
        first, second = float(self.alone[0]), float(alone[0])
        if np.isfinite(first) and np.isfinite(second) and first != 0.0 and second != 0.0:
            return first / second
        # The median ratio where both have a weight.
        both = (targets != 0) & (answers != 0) & torch.isfinite(answers) & torch.isfinite(targets)
        return float((answers[both] / targets[both]).median()) if bool(both.any()) else 1.0


@lru_cache(64)
def _paid(probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
    return tuple(p.but("", advantages=torch.where(p.advantages == 0, 1.0, p.advantages)) for p in probes)


@dataclass(frozen=True)
class Fit:
    """A method with settings, and how far it is from a loss: mean deviations and their maximum over tokens.
    `curve` is the mean on single tokens, `batches` on batches; `agrees` is the fraction of batch tokens that agree.
    """

    family: methods.Family
    settings: dict[str, Any]
    curve: float
    batches: float
    largest: float
    scale: float
    divisor: Divisor
    agrees: float = 0.0

    @property
    def score(self) -> float:
        """Mean of the deviations on single tokens and on batches."""
        return (self.curve + self.batches) / 2

    @property
    def label(self) -> str:
        """The call that makes the method."""
        return called(self.family.name, self.settings)

    def exact(self, tolerance: float) -> bool:
        """Whether no token deviates from the loss by more than the tolerance."""
        return self.largest <= tolerance


def apart(answers: Tensor, targets: Tensor, floor: float | None = None) -> Tensor:
    """|answers - targets| / max(|answers|, |targets|), in [0, 2]: 0 if both are negligible, 2 if one is not finite."""
    size = torch.maximum(answers.abs(), targets.abs())
    if floor is None:
        floor = _NO_EVIDENCE * (float(targets.abs().nan_to_num(0.0, 0.0, 0.0).max()) if targets.numel() else 0.0)
    ratio = (answers - targets).abs() / size.clamp(min=max(floor, 1e-300))
    return torch.where(torch.isfinite(ratio), ratio, torch.full_like(ratio, 2.0))


_NEAREST, _REFINED, _STEPS = 12, 5, 25
_HOPELESS, _NOTHING, _SUBSETS = 0.9, 1e-8, 5
_CHOICES, _DESCENTS = 3, 8
"""Named choices of a method whose constants are read off, and methods that go on behind the first round, at most."""
_KINKS = 24
"""Kinks whose constants are tried, at most."""
_JOINT, _PAIRS = 6, 400
"""Methods whose constants are tried two at once, and pairs of each, at most."""


def candidates(kinks: Sequence[Kink]) -> list[float | None]:
    """Constants that the kinks suggest: caps and bounds on the ratio, on its log, or on masked quantities."""
    numbers: list[float | None] = [None, 0.0]
    for kink in kinks[:_KINKS]:
        log_ratio, ratio = kink.log_ratio, math.exp(kink.log_ratio)
        square, excess = log_ratio**2, ratio - 1.0 - log_ratio
        readings = [ratio, abs(ratio - 1.0), abs(log_ratio), square, square / 2, excess, 1.0 / ratio]
        readings += [0.5 * abs(ratio - 1.0)] if kink.ladder == "probable" else []
        numbers += [tidy(value) for value in readings]
    return list(dict.fromkeys(numbers))


def search(
    evidence: Evidence,
    families: Sequence[methods.Family],
    kinks: Sequence[Kink],
    first: str | None = None,
    known: bool = False,
    smooth: bool = True,
) -> list[Fit]:
    """Fits of methods to a loss, best first; among equally good ones, the method `first`, then the simplest.

    Where the method is `known` already, only defaults and named choices are tried; without `smooth`, no constant is
    moved that no kink tells. Methods with a statistic of the batch are left out where tokens ignore one another.
    """

    def by(fit: Fit) -> tuple[Any, ...]:
        return order(fit, evidence.divisor.aggregator, first)

    tolerance = evidence.tolerance
    families = [one for one in families if one.name == first or not (evidence.separable and "scope" in one.choices)]
    scored = [(evidence.curve(one, choice), one, choice) for one in families for choice in methods.combinations(one)]
    scored.sort(key=lambda row: row[0])
    # Single tokens tell which methods, by their defaults, are worth the batches.
    least = max(sum(score <= 1e-6 for score, *_ in scored), _NEAREST)
    fits = [evidence.fit(family, settings) for _, family, settings in scored[:least]]
    if not known and not any(fit.exact(tolerance) for fit in fits):
        # Methods that have constants, with the nearest of their choices.
        rows = [row for row in scored if row[1].numbers]
        before = [sum(other.name == family.name for _, other, _ in rows[:k]) for k, (_, family, _) in enumerate(rows)]
        several = [row for row, count in zip(rows, before, strict=True) if count < _CHOICES and row[0] < 2.0]
        descents = [_Descent(evidence, family, dict(settings), score) for score, family, settings in several]
        fits += _descended(evidence, descents, candidates(kinks))
    best = min(fits, key=by)
    if best.exact(tolerance):
        fits += alike(evidence, best.family.name, best.settings, families)
    elif smooth and not known and best.score < _HOPELESS:
        for fit in sorted(fits, key=by)[:_REFINED]:
            fits.append(_refined(evidence, fit))
    return sorted({_key(fit.family, fit.settings): fit for fit in fits}.values(), key=by)


def alike(evidence: Evidence, name: str, numbers: Mapping[str, Any], families: Sequence[methods.Family]) -> list[Fit]:
    """Fits of all methods except `name` with these numbers, if single tokens have the same weights."""
    others = [one for one in families if one.name != name and one.numbers.keys() & numbers.keys()]
    pairs = ((one, choice) for one in others for choice in methods.combinations(one))
    tried = [(one, {**choice, **{k: v for k, v in numbers.items() if k in one.numbers}}) for one, choice in pairs]
    return [evidence.fit(*each) for each in tried if evidence.curve(*each) <= 1e-6]


def order(fit: Fit, aggregator: str | None, first: str | None = None) -> tuple[Any, ...]:
    """Sort key of fits: the nearest, then the requested method, then the fewest changes or omissions."""
    family = fit.family
    changed = len(fit.settings) + family.trimmed + (not math.isclose(fit.scale, 1.0, rel_tol=1e-6))
    other = aggregator is not None and family.aggregator != aggregator
    # Rounding does not choose between equal methods.
    return round(fit.score, 9), family.name != first, changed, other, family.source, len(family.numbers), family.name


def _key(family: methods.Family, settings: Mapping[str, Any]) -> str:
    return f"{family.name}{sorted(settings.items(), key=str)}"


@dataclass
class _Descent:
    """Coordinate descent on a method's constants, one or two at a time, against single tokens."""

    evidence: Evidence
    family: methods.Family
    settings: dict[str, Any]
    score: float

    def take(self, rows: Sequence[dict[str, Any]]) -> None:
        """Take the best row of numbers if it improves the score."""
        plain = [row for row in rows if None not in row.values()]
        scores = self.evidence.scan(self.family, self.settings, plain) if plain else []
        scored = list(zip(scores, plain, strict=True))
        scored += [(self.evidence.curve(self.family, {**self.settings, **r}), r) for r in rows if None in r.values()]
        score, row = min(scored, key=lambda one: one[0])
        if score < self.score - 1e-12:
            self.score, self.settings = score, {**self.settings, **row}

    def allowed(self, name: str, numbers: Sequence[float | None]) -> list[float | None]:
        """The numbers that the method accepts: an interval around an accepted one."""

        def takes(x: float | None) -> bool:
            return self.family.method({**self.settings, name: x}) is not None

        plain, inside = sorted(x for x in numbers if x is not None), self.family.numbers[name] or 2.0
        middle = bisect.bisect_left(plain, inside)
        if not takes(inside):
            return [x for x in numbers if takes(x)]
        low = bisect.bisect_left(plain, True, 0, middle, key=takes)
        high = bisect.bisect_left(plain, True, middle, key=lambda x: not takes(x))
        return [*([None] if takes(None) else []), *plain[low:high]]

    def alone(self, numbers: Sequence[float | None], rounds: int = 3) -> None:
        """Optimize every constant in turn, until nothing improves."""
        for _ in range(rounds):
            before = self.score
            for name in self.family.numbers:
                rows = [{name: x} for x in self.allowed(name, numbers)]
                if rows and self.evidence.left[0] > 0:
                    self.take(rows)
            if self.score == before:
                return

    def together(self, numbers: Sequence[float | None]) -> None:
        """Optimize two constants jointly: if both bounds are wrong, changing one may look worse."""
        for names in itertools.combinations(self.family.numbers, 2):
            columns = [[x for x in self.allowed(name, numbers) if x is not None] for name in names]
            rows = [dict(zip(names, pair, strict=True)) for pair in itertools.product(*columns)]
            if 0 < len(rows) <= _PAIRS and self.evidence.left[0] > 0:
                self.take(rows)


def _descended(evidence: Evidence, descents: Sequence[_Descent], numbers: Sequence[float | None]) -> list[Fit]:
    """Methods with constants chosen from the numbers: optimized in turn, and two at once if that explains nothing."""
    near, bare = descents[:_DESCENTS], []
    for others in ([], descents[_DESCENTS:]):
        for one in others or near:
            one.alone(numbers, 1)
        near = sorted([*near, *others], key=lambda one: one.score)[:_DESCENTS]
        for one in near:
            one.alone(numbers)
        fits = [evidence.fit(one.family, one.settings) for one in near]
        bare = [_bare(evidence, fit) for fit in fits]
        # What takes two constants may take one elsewhere.
        if any(fit.exact(evidence.tolerance) and (others or len(fit.settings) < 2) for fit in bare):
            return bare
    for one in near[:_JOINT]:
        one.together(numbers)
        one.alone(numbers)
    return [*bare, *(_bare(evidence, evidence.fit(one.family, one.settings)) for one in near[:_JOINT])]


def _bare(evidence: Evidence, fit: Fit) -> Fit:
    """The fit with as few settings as explain the loss equally well."""
    names = list(fit.settings)
    for size in range(len(names) if len(names) <= _SUBSETS else 0):
        for subset in itertools.combinations(names, size):
            settings = {name: fit.settings[name] for name in subset}
            if evidence.curve(fit.family, settings) > 2 * (fit.score + _NOTHING):
                continue  # half of the score alone says no
            less = evidence.fit(fit.family, settings)
            if less.score <= fit.score + _NOTHING:
                return less
    return fit


def _refined(evidence: Evidence, fit: Fit) -> Fit:
    """The fit with its numbers optimized continuously, if that helps."""
    from scipy.optimize import least_squares

    family = fit.family
    values = {name: fit.settings.get(name, default) for name, default in family.numbers.items()}
    names = [name for name, value in values.items() if isinstance(value, (int, float))]
    start = np.array([values[name] for name in names], dtype=np.float64)
    if not names or not np.isfinite(start).all() or evidence.left[0] <= 0:
        return fit

    def settings(x: Sequence[float] | np.ndarray) -> dict[str, Any]:
        return {**fit.settings, **{name: float(v) for name, v in zip(names, x, strict=True)}}

    def residuals(x: np.ndarray) -> np.ndarray:
        return evidence.residuals(family, settings(x))

    solution = least_squares(residuals, start, diff_step=1e-6, max_nfev=_STEPS, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    meant = [fewest(x, 5, 1e-5 * abs(x)) or x for x in solution.x.tolist()]
    plain, moved = (evidence.fit(family, settings(numbers)) for numbers in (meant, solution.x))
    moved = plain if plain.score <= moved.score + 1e-7 else moved
    return _bare(evidence, moved) if moved.score < fit.score else fit
