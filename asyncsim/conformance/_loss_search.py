"""The search for the method that a loss is: defaults first, then constants read off the kinks, then smooth ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.conformance._loss_curves import Kink, tidy
from asyncsim.conformance._loss_evidence import Evidence, Fit
from asyncsim.conformance._loss_methods import Family, combinations

_NEAREST, _REFINED, _STEPS = 12, 5, 25
_HOPELESS, _NOTHING, _SUBSETS = 0.9, 1e-8, 5
_CHOICES, _DESCENTS = 3, 8
"""Named choices of a method whose constants are read off, and methods that go on behind the first round, at most."""
_KINKS = 24
"""Kinks whose constants are tried, at most."""
_JOINT, _PAIRS = 6, 400
"""Methods whose constants are tried two at once, and pairs of each, at most."""


def candidates(kinks: Sequence[Kink]) -> list[float | None]:
    """Constants of which the kinks might tell: caps and bounds on the ratio, on its log, on what masks are made of."""
    found: list[float | None] = [None, 0.0]
    for kink in kinks[:_KINKS]:
        log_ratio, ratio = kink.log_ratio, math.exp(kink.log_ratio)
        square, excess = log_ratio**2, ratio - 1.0 - log_ratio
        told = [ratio, abs(ratio - 1.0), abs(log_ratio), square, square / 2, excess, 1.0 / ratio]
        told += [0.5 * abs(ratio - 1.0)] if kink.ladder == "probable" else []
        found += [tidy(value) for value in told]
    return list(dict.fromkeys(found))


def search(
    evidence: Evidence,
    families: Sequence[Family],
    kinks: Sequence[Kink],
    tolerance: float,
    first: str | None = None,
    known: bool = False,
    smooth: bool = True,
) -> list[Fit]:
    """Fits, best first; of equally good ones, that of the method named `first`, then the simplest.

    Where the method is `known` already, defaults and named choices are all that is tried; without `smooth`, no constant
    is moved that no kink tells. Methods with a statistic of the batch (they have a scope for it) are left out where
    tokens ignore one another.
    """

    def by(fit: Fit) -> tuple[Any, ...]:
        return order(fit, evidence.aggregator, first)

    families = [one for one in families if one.name == first or not (evidence.separable and "scope" in one.choices)]
    listed = [(evidence.curve(one, choice), one, choice) for one in families for choice in combinations(one)]
    listed.sort(key=lambda row: row[0])
    found = _nearest(evidence, listed)
    if not known and not any(fit.exact(tolerance) for fit in found):
        found += _descended(evidence, _several(listed), candidates(kinks), tolerance)
    best = min(found, key=by)
    if best.exact(tolerance):
        found += _alike(evidence, families, best)
    elif smooth and not known and best.score < _HOPELESS:
        for fit in sorted(found, key=by)[:_REFINED]:
            found.append(_refined(evidence, fit))
    return sorted({_key(fit): fit for fit in found}.values(), key=by)


def order(fit: Fit, aggregator: str | None, first: str | None = None) -> tuple[Any, ...]:
    """Nearest first; then the method that was asked for, and the one of which least has to be changed or left out."""
    family = fit.family
    assert family is not None
    changed = len(fit.settings) + family.trimmed + (not math.isclose(fit.scale, 1.0, rel_tol=1e-6))
    other = aggregator is not None and family.aggregator != aggregator
    # Rounding does not choose between equal methods.
    return round(fit.score, 9), family.name != first, changed, other, family.source, len(family.numbers), family.name


def _key(fit: Fit) -> str:
    return f"{fit.family.name if fit.family else ''}{sorted(fit.settings.items(), key=str)}"


_Listed = tuple[float, Family, dict[str, Any]]
"""Distance on single tokens, a method, and its named choices."""


def _nearest(evidence: Evidence, listed: Sequence[_Listed]) -> list[Fit]:
    """Methods by their defaults: single tokens tell which of them are worth the batches."""
    least = max(sum(score <= 1e-6 for score, *_ in listed), _NEAREST)
    return [evidence.fit(family, settings) for _, family, settings in listed[:least]]


def _several(listed: Sequence[_Listed]) -> list[_Listed]:
    """Methods that have constants, with the nearest of their choices."""
    taken: dict[str, int] = {}
    chosen = []
    for row in listed:
        taken[row[1].name] = taken.get(row[1].name, 0) + 1
        if row[1].numbers and taken[row[1].name] <= _CHOICES and row[0] < 2.0:
            chosen.append(row)
    return chosen


@dataclass
class _Descent:
    """A method whose constants are set, one after the other or two at once, to what single tokens ask for."""

    evidence: Evidence
    family: Family
    settings: dict[str, Any]
    score: float

    def fit(self) -> Fit:
        """What has been reached."""
        return self.evidence.fit(self.family, self.settings)

    def take(self, rows: Sequence[dict[str, Any]]) -> None:
        """The best row of numbers, where it is better than what stands."""
        plain = [row for row in rows if None not in row.values()]
        scores = self.evidence.scan(self.family, self.settings, plain) if plain else []
        listed = list(zip(scores, plain, strict=True))
        listed += [(self.evidence.curve(self.family, {**self.settings, **r}), r) for r in rows if None in r.values()]
        score, row = min(listed, key=lambda one: one[0])
        if score < self.score - 1e-12:
            self.score, self.settings = score, {**self.settings, **row}

    def allowed(self, name: str, numbers: Sequence[float | None]) -> list[float | None]:
        """Those of the numbers that the method accepts."""
        return [x for x in numbers if self.family.method({**self.settings, name: x}) is not None]

    def alone(self, numbers: Sequence[float | None], rounds: int = 3) -> None:
        """Every constant in turn, until nothing gets better."""
        for _ in range(rounds):
            before = self.score
            for name in self.family.numbers:
                rows = [{name: x} for x in self.allowed(name, numbers)]
                if rows and self.evidence.left[0] > 0:
                    self.take(rows)
            if self.score == before:
                return

    def together(self, numbers: Sequence[float | None]) -> None:
        """Two at once: where both bounds are wrong, mending one may look worse."""
        for names in itertools.combinations(self.family.numbers, 2):
            columns = [[x for x in self.allowed(name, numbers) if x is not None] for name in names]
            rows = [dict(zip(names, pair, strict=True)) for pair in itertools.product(*columns)]
            if 0 < len(rows) <= _PAIRS and self.evidence.left[0] > 0:
                self.take(rows)


def _descended(
    evidence: Evidence, listed: Sequence[_Listed], numbers: Sequence[float | None], tolerance: float
) -> list[Fit]:
    """Methods with constants from among the numbers: set in turn, and where that explains nothing, two at once."""
    started = [_Descent(evidence, family, dict(settings), score) for score, family, settings in listed]
    for one in started:
        one.alone(numbers, 1)
    nearest = sorted(started, key=lambda one: one.score)[:_DESCENTS]
    for one in nearest:
        one.alone(numbers)
    found = [one.fit() for one in nearest]
    if not any(fit.exact(tolerance) for fit in found):
        for one in nearest[:_JOINT]:
            one.together(numbers)
            one.alone(numbers)
        found += [one.fit() for one in nearest[:_JOINT]]
    return [_bare(evidence, fit) for fit in found]


def _bare(evidence: Evidence, fit: Fit) -> Fit:
    """The fit with as few settings as explain the loss as well."""
    assert fit.family is not None
    names = list(fit.settings)
    for size in range(len(names) if len(names) <= _SUBSETS else 0):
        for kept in itertools.combinations(names, size):
            settings = {name: fit.settings[name] for name in kept}
            if evidence.curve(fit.family, settings) > 2 * (fit.score + _NOTHING):
                continue  # half of the score alone says no
            less = evidence.fit(fit.family, settings)
            if less.score <= fit.score + _NOTHING:
                return less
    return fit


def _alike(evidence: Evidence, families: Sequence[Family], best: Fit) -> list[Fit]:
    """Other methods with the constants of the best one."""
    found = []
    for family in families:
        for settings in combinations(family):
            shared = {k: v for k, v in best.settings.items() if k in family.numbers}
            if not shared or (best.family is not None and family.name == best.family.name):
                continue
            if evidence.curve(family, {**settings, **shared}) <= 1e-6:
                found.append(evidence.fit(family, {**settings, **shared}))
    return found


def _refined(evidence: Evidence, fit: Fit) -> Fit:
    """The fit with its numbers moved continuously, where that helps."""
    from scipy.optimize import least_squares

    family = fit.family
    assert family is not None
    values = {name: fit.settings.get(name, default) for name, default in family.numbers.items()}
    names = [name for name, value in values.items() if isinstance(value, (int, float))]
    start = np.array([value for value in values.values() if isinstance(value, (int, float))], dtype=np.float64)
    if not names or not np.isfinite(start).all() or evidence.left[0] <= 0:
        return fit

    def settings(x: np.ndarray, round_to: Callable[[float], float] = float) -> dict[str, Any]:
        return {**fit.settings, **{name: round_to(float(v)) for name, v in zip(names, x, strict=True)}}

    def residuals(x: np.ndarray) -> np.ndarray:
        found = evidence.residuals(family, settings(x))
        return np.full(_size(evidence), 3.0) if found is None else found.numpy()

    found = least_squares(residuals, start, diff_step=1e-6, max_nfev=_STEPS, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    plain, moved = (evidence.fit(family, settings(found.x, near)) for near in (_near, float))
    moved = plain if plain.score <= moved.score + 1e-7 else moved
    return _bare(evidence, moved) if moved.score < fit.score else fit


def _near(value: float) -> float:
    """What was meant by a fitted number."""
    for digits in range(1, 6):
        if abs(float(f"{value:.{digits}g}") - value) <= 1e-5 * abs(value):
            return float(f"{value:.{digits}g}")
    return value


def _size(evidence: Evidence) -> int:
    return int(sum(int((probe.mask > 0).sum()) for probe in evidence.probes)) + len(evidence.alone)
