"""The search for the method that a loss is: defaults first, then constants read off the kinks, then smooth ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsim.conformance._loss_curves import Kink, tidy
from asyncsim.conformance._loss_methods import Evidence, Family, Fit, combinations

_DESCENTS, _REFINED, _STEPS = 14, 5, 25
_HOPELESS, _NOTHING, _SUBSETS = 0.9, 1e-8, 5


def candidates(kinks: Sequence[Kink]) -> list[float | None]:
    """Constants of which the kinks might tell: caps and bounds on the ratio, on its log, on what masks are made of."""
    found: list[float | None] = [None, 0.0]
    for kink in kinks:
        log_ratio, ratio = kink.log_ratio, math.exp(kink.log_ratio)
        square, excess = log_ratio**2, ratio - 1.0 - log_ratio
        told = [ratio, abs(ratio - 1.0), abs(log_ratio), square, square / 2, excess, 1.0 / ratio]
        told += [0.5 * abs(ratio - 1.0)] if kink.ladder == "probable" else []
        found += [tidy(value) for value in told]
    return list(dict.fromkeys(found))


def search(
    evidence: Evidence, families: Sequence[Family], kinks: Sequence[Kink], tolerance: float, first: str | None = None
) -> list[Fit]:
    """Fits, best first; of equally good ones, that of the method named `first`, then the simplest.

    Methods with a statistic of the batch (they have a scope for it) are left out where tokens ignore one another.
    """

    def by(fit: Fit) -> tuple[Any, ...]:
        return order(fit, evidence.aggregator, first)

    families = [one for one in families if one.name == first or not (evidence.separable and "scope" in one.choices)]
    fits = [evidence.fit(family, settings) for family in families for settings in combinations(family)]
    numbers = candidates(kinks)
    found = list(fits)
    opened = sorted(fits, key=lambda fit: (fit.score, len(fit.settings)))
    if not opened[0].exact(tolerance):
        for fit in _several(opened):
            found.append(_descend(evidence, fit, numbers))
    best = min(found, key=by)
    if best.exact(tolerance):
        found += _alike(evidence, families, best)
    elif best.score < _HOPELESS:
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


def _several(fits: Sequence[Fit]) -> list[Fit]:
    """The nearest ones, at most three choices of each family."""
    taken: dict[str, int] = {}
    chosen = []
    for fit in fits:
        name = fit.family.name if fit.family else ""
        taken[name] = taken.get(name, 0) + 1
        if taken[name] <= 3 and fit.score <= 1.0:
            chosen.append(fit)
    return chosen[:_DESCENTS]


def _descend(evidence: Evidence, fit: Fit, numbers: Sequence[float | None]) -> Fit:
    """One constant after the other set to each candidate, as single tokens ask for, until nothing gets better."""
    family, settings = fit.family, dict(fit.settings)
    assert family is not None
    best = evidence.curve(family, settings)
    for _ in range(3):
        before = best
        for name in family.numbers:
            for value in numbers:
                score = evidence.curve(family, {**settings, name: value})
                if score < best - 1e-12:
                    best, settings = score, {**settings, name: value}
        if best == before:
            break
    found = evidence.fit(family, settings)
    return _bare(evidence, found if found.score < fit.score else fit)


def _bare(evidence: Evidence, fit: Fit) -> Fit:
    """The fit with as few settings as explain the loss as well."""
    assert fit.family is not None
    names = list(fit.settings)
    for size in range(len(names) if len(names) <= _SUBSETS else 0):
        for kept in itertools.combinations(names, size):
            less = evidence.fit(fit.family, {name: fit.settings[name] for name in kept})
            if less.score <= fit.score + _NOTHING:
                return less
    return fit


def _alike(evidence: Evidence, families: Sequence[Family], best: Fit) -> list[Fit]:
    """Other methods with the constants of the best one."""
    found = []
    for family in families:
        for settings in combinations(family):
            shared = {k: v for k, v in best.settings.items() if k in family.numbers}
            if shared and (best.family is None or family.name != best.family.name):
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
    if not names or not np.isfinite(start).all():
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
