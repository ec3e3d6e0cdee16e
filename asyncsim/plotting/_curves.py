"""Which curves show a claim: predictions along a parameter, with the measured points that lie on them.

In a report they are SVG inside its page: a kilobyte or two each, in the page's font and colors.
"""

import contextlib
import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

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
REFUSALS = (checks.InputError, ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
WIDTH, HEIGHT = 600, 270
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 34, 52
ASIDE, LINE = 240, 17
"""Width at the right for the names of several curves, and height of a line of a name."""
NAME, SHORT, ABSENT = 40, 26, ("False", "None")
"""Most characters that name a point, those of one line beside a curve, and values that are not named."""
REACH = 1.25
"""Effects either side of 0 that a deviation's mark can show."""
EFFECT = 32
"""Pixels of one effect there."""
ALIKE = 1e-3
"""Relative span below which the values of an axis count as one."""
ONE_SIDED = ("bound", "ordering")
CLASSES = {"held": "m", "holds, not tight": "loose"}

Place = tuple[float, float, float]
Row = tuple[float, Comparison]


@dataclass(frozen=True)
class Panel:
    """Curves of one quantity of a verdict: predicted `lines` of (x, y, smallest effect), and measured `rows` by x.

    `names`: what distinguishes each line from the others; empty for one curve. `owners`: the name of each row's curve.
    """

    across: str
    upward: str
    lines: tuple[tuple[Place, ...], ...]
    rows: tuple[tuple[float, Comparison], ...]
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()


def panels(verdict: Verdict, predict: Prediction | None = None) -> list[Panel]:
    """Panels of a claim's verdict; empty if no parameter and no index varies between its points.

    `predict`: evaluates the claim between its points. Without it, or where it refuses, predicted points are joined.
    """
    rows = [row for row in verdict.points if row.verdict != "outside"]
    words = (verdict.kind, verdict.id.partition("/")[0], verdict.id)
    indexed = list(_against_index(rows, words))
    along = list(_against_parameter(rows, words, predict and _asked_once(predict)))
    return [*indexed[: max(2, PANELS - len(along))], *along][:PANELS]


def meaning(quantity: str, words: Sequence[str] = ()) -> str:
    """Name of a claim's quantity or parameter with its unit; `words` are kind and family of the claim.

    >>> meaning("ess"), meaning("staleness"), meaning("step", ("threshold", "staleness"))
    ('effective sample size', 'staleness (versions)', 'largest stable step size')
    """
    word = notation.WORDS.get(quantity, notation.Word("", ""))
    plain = (word.name or quantity.replace("_", " ")) + f" ({word.unit})" * bool(word.unit)
    own = (notation.WORDS.get(f"{each} {quantity}", word) for each in words)
    return next((each.name for each in own if each is not word and each.name), plain)


def _against_index(rows: Sequence[Comparison], words: Sequence[str]) -> Iterable[Panel]:
    """One panel per point and stem for quantities with at least three indices, such as p[0], p[1], p[2]."""
    points = list({repr(row.point): row.point for row in rows}.values())
    names = {repr(point): f" at {name}" * bool(name) for point, name in zip(points, name_points(points), strict=True)}
    stems: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts = re.fullmatch(r"(\w+)\[(-?\d+)\]", row.quantity)
        if parts and f"index {parts[1]}" in notation.WORDS:
            stems.setdefault((repr(row.point), parts[1]), []).append((float(parts[2]), row))
    for (point, stem), found in stems.items():
        if len(found) >= 3:
            found.sort(key=lambda each: each[0])
            line = tuple((x, row.predicted, effect_of(row, words[0])) for x, row in found)
            yield Panel(meaning(stem, ["index"]), f"{meaning(stem, words)}{names[point]}", (line,), tuple(found))


def _against_parameter(rows: Sequence[Comparison], words: Sequence[str], predict: Prediction | None) -> Iterable[Panel]:
    """One panel per quantity, against the parameter in which most points differ while all others agree."""
    plain = [row for row in rows if "[" not in row.quantity]
    for quantity in dict.fromkeys(row.quantity for row in plain or rows):
        same = [row for row in rows if row.quantity == quantity]
        others = [{name: value for name, value in row.point.items() if name != quantity} for row in same]
        key = _parameter(others, 1 if plain else 2)
        if key is None:
            continue
        # Points on one curve agree in all other parameters.
        curves: dict[str, list[Row]] = {}
        for row in same:
            if checks.is_number(row.point.get(key)):
                curves.setdefault(_others(row.point, key), []).append((row.point[key], row))
        chosen = sorted(curves.values(), key=len, reverse=True)[:LINES]
        values = [x for curve in chosen for x, _ in curve]
        if len(set(values)) < 2:
            continue
        places = between(min(values), max(values), all(isinstance(x, int) for x in values))
        bases = [{name: value for name, value in curve[0][1].point.items() if name != key} for curve in chosen]
        lines, names, called = [], [], name_points(bases)
        for curve, name in zip(chosen, called, strict=True):
            at, effects = zip(*sorted((x, effect_of(row, words[0])) for x, row in curve), strict=True)
            for line in _line(curve, key, quantity, places, predict):
                lines.append(tuple((x, y, float(np.interp(x, at, effects))) for x, y in line))
                names.append(name)
        if any(len(line) > 1 for line in lines):
            pairs = [(row, name) for curve, name in zip(chosen, called, strict=True) for row in curve]
            found, owners = zip(*sorted(pairs, key=lambda each: each[0][0]), strict=True)
            told = (tuple(names), owners) if len(chosen) > 1 else ()
            yield Panel(meaning(key, (words[-1], "axis")), meaning(quantity, words), tuple(lines), found, *told)


def name_points(points: Sequence[Point]) -> list[str]:
    """Name each point of a claim by parameters that differ: the shortest names that distinguish all points."""
    keys = list(dict.fromkeys(key for point in points for key in point))
    changing = [key for key in keys if len({repr(point.get(key)) for point in points}) > 1]

    def name(point: Point, chosen: Sequence[str], brief: Callable[[Any], str]) -> str:
        told = [key for key in changing if key in chosen and key in point]
        # A flag is named where it is set, a value where there is one.
        words = [f"{key} {brief(point[key])}".removesuffix(" True") for key in told if str(point[key]) not in ABSENT]
        return ", ".join(words or [f"not {key}" for key in told]).replace("_", " ")

    def names(chosen: Sequence[str], brief: Callable[[Any], str] = in_few_signs) -> list[str]:
        return [name(point, chosen, brief) for point in points]

    chosen: list[str] = []
    for key in sorted(changing, key=lambda key: max(map(len, names([key])))):
        longer = names([*chosen, key])
        if max(map(len, longer)) <= NAME or len({*names(chosen)}) < len({*longer}):
            chosen.append(key)
    texts = names(chosen)
    return texts if len({*texts}) == len(points) else names(chosen, str)


def in_few_signs(value: Any) -> str:
    """Format a claim's parameter briefly; of a long list only the first and the last number."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)) and len(str(value)) > NAME // 2:
        first, last = value, value
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        while isinstance(last, (list, tuple)) and last:
            last = last[-1]
        return f"({in_few_signs(first)}, …, {in_few_signs(last)})"
    return str(value)


def _parameter(points: Sequence[Point], least: int) -> str | None:
    """Numeric parameter for which most points share a curve, at least `least`; ties go to more values."""
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
    curve: Sequence[Row], key: str, quantity: str, places: Sequence[float], predict: Prediction | None
) -> list[tuple[tuple[float, float], ...]]:
    """Segments of a curve: evaluated where the claim allows it, else through the predicted points.

    A measured point stands alone where the claim has no prediction beside it.
    """
    known = sorted({(x, row.predicted) for x, row in curve})
    if predict is None:
        return [tuple(known)]
    base = dict(curve[0][1].point)
    values = dict(known)
    for x in sorted({*places, *values}):
        values.setdefault(x, float(predict({**base, key: x}).get(quantity, math.nan)))
    runs = itertools.groupby(sorted(values.items()), key=lambda place: math.isfinite(place[1]))
    stretches = [tuple(run) for finite, run in runs if finite]
    return [stretch for stretch in stretches if len(stretch) > 1 or {*stretch} & {*known}]


def _asked_once(predict: Prediction) -> Prediction:
    """The same predictions, cached per point; empty outside of the claim's domain."""
    known: dict[str, Mapping[str, float]] = {}

    def asked(point: Point) -> Mapping[str, float]:
        key = repr(point)
        if key not in known:
            known[key] = {}
            with contextlib.suppress(*REFUSALS):
                known[key] = predict(point)
        return known[key]

    return asked


def between(low: float, high: float, whole: bool) -> list[float]:
    """Positions on an axis from end to end, evenly spaced in its scale; all integers if there are few."""
    if whole and high - low < 2 * PLACES:
        return list(range(int(low), int(high) + 1))
    places = (np.geomspace if logarithmic(low, high) else np.linspace)(low, high, PLACES).tolist()
    return sorted({round(x) for x in places}) if whole else places


def logarithmic(low: float, high: float) -> bool:
    """Whether an axis with these ends has a logarithmic scale."""
    return low > 0 and high > WIDE * low


def _others(point: Point, key: str) -> str:
    return repr([(name, value) for name, value in point.items() if name != key])


def panel(drawn: Panel) -> str:
    """Draw a panel as an SVG element, with the classes `c` chart, `m` measured, `p` predicted, `b` band and `a` axis.

    The band is the smallest effect either side of the prediction. Several curves have their names at the right.
    """
    heights = [y + side * reach for line in drawn.lines for _, y, reach in line for side in (-1.0, 0.0, 1.0)]
    heights += [each for _, row in drawn.rows for each in (row.low, row.high, row.measured) if math.isfinite(each)]
    ranges = _range([x for line in drawn.lines for x, _, _ in line], 0.04), _range(heights, 0.08, near=0.35)
    right = WIDTH - (ASIDE if drawn.names else RIGHT)
    color = {name: f"k{k}" for k, name in enumerate(dict.fromkeys(drawn.names))}
    across = _Axis(*ranges[0], LEFT, right, whole=all(float(x).is_integer() for x, _ in drawn.rows))
    upward = _Axis(*ranges[1], HEIGHT - BOTTOM, TOP)
    ticks = [_text(across(v), HEIGHT - BOTTOM + 20, text, "middle") for v, text in across.ticks()]
    ticks += [_text(LEFT - 8, upward(v) + 5, text, "end") for v, text in upward.ticks()]
    ticks += [_text(4, 18, drawn.upward, "start"), _text((LEFT + right) / 2, HEIGHT - 8, drawn.across)]
    bands, curves, ends = [], [], dict[str, tuple[float, float]]()
    for k, line in enumerate(drawn.lines):
        # A curve at one position only is a short dash.
        wide = [(8.0 * side, *line[0]) for side in (-1, 1)] if len(line) == 1 else [(0.0, *place) for place in line]
        middle, low, high = (
            [f"{across(x) + shift:.{form}} {upward(y + side * reach):.{form}}" for shift, x, y, reach in wide]
            for side, form in ((0.0, "4g"), (-1.0, "0f"), (1.0, "0f"))
        )
        own = f" {color[drawn.names[k]]}" if drawn.names else ""
        bands.append(f'<path class="b{own}" d="M{"L".join([*low, *reversed(high)])}Z"/>')
        curves.append(f'<path class="p{own}" d="M{"L".join(middle)}"/>')
        ends |= {drawn.names[k]: (across(line[-1][0]), upward(line[-1][1]))} if drawn.names else {}
    axis = f'<path class="a" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{right}"/>'
    owners = zip(drawn.rows, drawn.owners or itertools.repeat(""), strict=False)
    marks = [_mark(across(x), upward, row, color.get(own, "")) for (x, row), own in owners]
    label = f"{drawn.upward} against {drawn.across}: predicted curve and measured points"
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    body = "".join([*bands, axis, *ticks, *curves, *marks, *_names(ends, right, color)])
    return f'<svg class="c" {view} role="img" aria-label="{escape(label)}">{body}</svg>'


def _names(ends: Mapping[str, tuple[float, float]], right: float, color: Mapping[str, str]) -> Iterable[str]:
    """Names at the ends of their curves in the curve's color, moved apart where they would overlap."""
    texts = {name: textwrap.wrap(name, SHORT, break_long_words=False) for name in ends}
    free, remaining = float(TOP), sum(map(len, texts.values()))
    for name, (x, end) in sorted(ends.items(), key=lambda each: each[1][1]):
        y = max(free, min(end + 5, HEIGHT - BOTTOM - LINE * (remaining - 1)))
        yield f'<path class="l {color[name]}" d="M{x + 4:.4g} {end:.4g}L{right + 10:.4g} {y - 5:.4g}"/>'
        yield from (_text(right + 14, y + LINE * k, line, "start", color[name]) for k, line in enumerate(texts[name]))
        free, remaining = y + LINE * len(texts[name]) + 4, remaining - len(texts[name])


def deviation(row: Comparison, kind: str) -> str:
    """HTML of measured minus predicted in units of the effect: a mark with interval, or text outside of the scale."""
    if row.verdict == "outside":
        return ""
    middle, reach = scaled(row, kind)
    below = "below" * (kind in ONE_SIDED and round(middle, 2) < 0.0)
    if not abs(middle) <= REACH:
        text = below or (f"{middle:.3g}".replace("-", "−") if math.isfinite(middle) else "diverged")
        return f"← {text}" if middle < 0 else f"{text} →"
    # There are thousands of them, so the page's style draws and clips the mark, from its middle x and half width h.
    name = "" if row.verdict == "held" else f" {CLASSES.get(row.verdict, row.verdict)}"
    half = min(EFFECT * reach, 4 * EFFECT * REACH)
    text = below or f"{middle:.2f}".replace("-0.00", "0.00").replace("-", "−")
    return f'<i class="d{name}" style="--x:{EFFECT * middle:.3g};--h:{half:.3g}"></i> {text}'


def scaled(row: Comparison, kind: str) -> tuple[float, float]:
    """Measured minus predicted and its half interval in units of the effect, or of the half interval without effect."""
    if not math.isfinite(row.measured):
        return math.inf, 0.0
    reach = (row.high - row.low) / 2.0
    unit = effect_of(row, kind) or reach or 1.0
    return (row.measured - row.predicted) / unit, reach / unit


def effect_of(row: Comparison, kind: str) -> float:
    """Effect D that a comparison had to detect, from margin = (reach - deviation) / D; 0 if unknown."""
    signed = row.measured - row.predicted
    room = (row.high - row.low) / 2.0 - (signed if kind in ONE_SIDED else abs(signed))
    return room / row.margin if math.isfinite(room) and math.isfinite(row.margin) and room and row.margin else 0.0


class _Axis:
    """Maps values to screen positions, linearly or logarithmically."""

    def __init__(self, low: float, high: float, start: float, end: float, whole: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.whole = low, high, start, end, whole
        self.log = logarithmic(low, high)

    def __call__(self, value: float) -> float:
        value = max(self.low, min(self.high, value))
        low, high = self.low, self.high
        share = math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """At most five round values with their labels."""
        if self.log:
            tens = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            values = [10.0**k for k in tens][:: 1 + len(tens) // 5]
        else:
            raw = (self.high - self.low) / 5
            unit = 10.0 ** math.floor(math.log10(raw))
            step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= raw)
            step = max(1.0, step) if self.whole else step
            first = math.ceil(self.low / step - 1e-9)
            values = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [(value, notation.number(float(f"{value:.12g}"))) for value in values]


def _range(values: list[float], pad: float, near: float = 0.0) -> tuple[float, float]:
    """Ends of an axis with relative padding; the axis starts at 0 if the smallest value is close to it."""
    low, high = min(values), max(values)
    if logarithmic(low, high):
        room = (high / low) ** pad
        return low / room, high * room
    low = 0.0 if 0 < low < near * high else low
    alike = high - low <= ALIKE * max(abs(low), abs(high))
    room = (0.1 * abs(high) or 1.0) if alike else pad * (high - low)
    return (low if low == 0.0 and near else low - room), high + room


def _text(x: float, y: float, text: str, anchor: str = "middle", color: str = "") -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" class="{f"{anchor[0]} {color}".strip()}">{escape(text)}</text>'


def _mark(x: float, upward: _Axis, row: Comparison, color: str) -> str:
    """A measured point with its interval, or a cross at the top if the measurement diverged."""
    name = CLASSES.get(row.verdict, row.verdict)
    if not math.isfinite(row.measured):
        return f'<text x="{x:.4g}" y="{TOP + 8}" class="m violated">×</text>'
    y, low, high = upward(row.measured), upward(row.low), upward(row.high)
    bar = f"M{x:.4g} {low:.4g}V{high:.4g}"
    bar += f"M{x - 3:.4g} {low:.4g}h6M{x - 3:.4g} {high:.4g}h6" if low - high > 2 else ""
    return f'<g class="{name}{f" {color}" * bool(color)}"><path d="{bar}"/><circle cx="{x:.4g}" cy="{y:.4g}"/></g>'
