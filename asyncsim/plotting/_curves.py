"""Which curves show a claim: predictions along a parameter, with the measured points that lie on them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from asyncsim.base import checks, notation
from asyncsim.base.records import Comparison, Point, Verdict

Prediction = Callable[[Point], Mapping[str, float]]
"""What a claim predicts at a point, by quantity."""
PANELS = 4
LINES = 4
"""Most curves of a panel."""
PLACES = 17
"""Values of a parameter at which a prediction is evaluated between its measured points."""
WIDE = 30.0
"""Ratio of an axis's ends from which it is logarithmic."""
COUNTS = {"cells"}
"""Parameters that only say how much is compared."""
INDEXED = {
    "p": "staleness (versions)",
    "tail": "staleness (versions)",
    "corr": "updates apart",
    "cdf": "level",
    "growth": "staleness (updates)",
}
"""Stems of quantities whose index is a number to draw against; indices of others only count components."""
REFUSALS = (checks.InputError, ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity: `lines` predicted, as pairs, and (x, number of the point, comparison) measured."""

    across: str
    upward: str
    lines: tuple[tuple[tuple[float, float], ...], ...]
    rows: tuple[tuple[float, int, Comparison], ...]


def panels(verdict: Verdict, predict: Prediction | None = None) -> list[Panel]:
    """Panels of a verdict, none where no parameter and no index varies.

    `predict`: evaluates the claim between its points. Without it, or where it refuses, predicted points are joined.
    """
    points = list({repr(row.point): None for row in verdict.points})
    rows = [(1 + points.index(repr(row.point)), row) for row in verdict.points if row.verdict != "outside"]
    indexed = list(_against_index(rows))
    along = list(_against_parameter(rows, predict))
    return [*indexed[: max(2, PANELS - len(along))], *along][:PANELS]


def _against_index(rows: Sequence[tuple[int, Comparison]]) -> Iterable[Panel]:
    """A panel for each point and stem of quantities with three indices or more, such as p[0], p[1], p[2]."""
    stems: dict[tuple[int, str], list[tuple[float, int, Comparison]]] = {}
    for number, row in rows:
        parts = re.fullmatch(r"(\w+)\[(-?\d+)\]", row.quantity)
        if parts and parts[1] in INDEXED:
            stems.setdefault((number, parts[1]), []).append((float(parts[2]), number, row))
    for (number, stem), found in stems.items():
        if len(found) >= 3:
            found.sort(key=lambda each: each[0])
            line = tuple((x, row.predicted) for x, _, row in found)
            yield Panel(INDEXED[stem], f"{stem} at point {number}", (line,), tuple(found))


def _against_parameter(rows: Sequence[tuple[int, Comparison]], predict: Prediction | None) -> Iterable[Panel]:
    """A panel for each quantity against the parameter that most points differ in while they agree in all others."""
    plain = [each for each in rows if "[" not in each[1].quantity]
    for quantity in dict.fromkeys(row.quantity for _, row in plain or rows):
        same = [(number, row) for number, row in rows if row.quantity == quantity]
        others = [{name: value for name, value in row.point.items() if name != quantity} for _, row in same]
        key = _parameter(others, 1 if plain else 2)
        if key is None:
            continue
        # Points on one curve agree in all other parameters.
        curves: dict[str, list[tuple[float, int, Comparison]]] = {}
        for number, row in same:
            if checks.is_number(row.point.get(key)):
                curves.setdefault(_others(row.point, key), []).append((row.point[key], number, row))
        chosen = sorted(curves.values(), key=len, reverse=True)[:LINES]
        values = [x for curve in chosen for x, _, _ in curve]
        if len(set(values)) < 2:
            continue
        places = between(min(values), max(values), all(isinstance(x, int) for x in values))
        lines = [line for curve in chosen for line in _line(curve, key, quantity, places, predict)]
        if any(len(line) > 1 for line in lines):
            found = tuple(sorted(itertools.chain(*chosen), key=lambda each: each[:2]))
            yield Panel(_label(key), quantity.replace("_", " "), tuple(lines), found)


def _parameter(points: Sequence[Point], least: int) -> str | None:
    """The numeric parameter in which most points share a curve, at least so many; of equals that with most values."""
    best, chosen = (least - 2, 1), None
    for key in dict.fromkeys(key for point in points for key in point if key not in COUNTS):
        curves: dict[str, set[float]] = {}
        for point in points:
            if checks.is_number(point.get(key)):
                curves.setdefault(_others(point, key), set()).add(point[key])
        shared = sum(len(values) for values in curves.values() if len(values) > 1)
        rank = (shared, len(set().union(*curves.values())) if curves else 0)
        if rank > best and rank[1] > 1 and rank[0] >= least - 1:
            best, chosen = rank, key
    return chosen


def _line(
    curve: Sequence[tuple[float, int, Comparison]],
    key: str,
    quantity: str,
    places: Sequence[float],
    predict: Prediction | None,
) -> list[tuple[tuple[float, float], ...]]:
    """A curve's stretches: evaluated where the claim allows it, else through the predicted points of the curve.

    A measured point stands alone where the claim has no prediction beside it.
    """
    known = sorted({(x, row.predicted) for x, _, row in curve})
    if predict is None:
        return [tuple(known)]
    base = dict(curve[0][2].point)
    values = dict(known)
    for x in sorted({*places, *values}):
        values.setdefault(x, _evaluated(predict, {**base, key: x}, quantity))
    stretches, line = [], []
    for x in sorted(values):
        if math.isfinite(values[x]):
            line.append((x, values[x]))
        elif line:
            stretches.append(tuple(line))
            line = []
    return [stretch for stretch in [*stretches, tuple(line)] if len(stretch) > 1 or {*stretch} & {*known}]


def _evaluated(predict: Prediction, point: Point, quantity: str) -> float:
    """The prediction at a point, not a number outside the claim's domain."""
    try:
        return float(predict(point).get(quantity, math.nan))
    except REFUSALS:
        return math.nan


def between(low: float, high: float, whole: bool) -> list[float]:
    """Places from one end to the other, evenly spaced on the axis that `logarithmic` chooses; all whole ones if few.

    >>> between(1, 5, True)
    [1, 2, 3, 4, 5]
    """
    if whole and high - low < 2 * PLACES:
        return list(range(int(low), int(high) + 1))
    shares = [k / (PLACES - 1) for k in range(PLACES)]
    if logarithmic(low, high):
        places = [low * (high / low) ** share for share in shares]
    else:
        places = [low + (high - low) * share for share in shares]
    return sorted({round(x) for x in places}) if whole else places


def logarithmic(low: float, high: float) -> bool:
    """Whether an axis with these ends is logarithmic."""
    return low > 0 and high > WIDE * low


def _others(point: Point, key: str) -> str:
    return repr([(name, value) for name, value in point.items() if name != key])


def _label(key: str) -> str:
    word = notation.WORDS.get(key)
    unit = f" ({word.unit})" if word and word.unit else ""
    return f"{key.replace('_', ' ')}{unit}"
