"""Panels of a report as SVG inside its page: a kilobyte or two each, in the page's font and colors."""

from __future__ import annotations

import math
from html import escape

from asyncsim.base import notation
from asyncsim.base.records import Comparison
from asyncsim.plotting._curves import Panel, logarithmic

WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 26, 40
REACH = 2.5
"""Effects either side of 0 that a deviation's mark can show."""
EFFECT = 24
"""Pixels of one effect there."""
ALIKE = 1e-3
"""Relative span below which the values of an axis count as one."""
ONE_SIDED = ("bound", "ordering")
CLASSES = {"held": "m", "holds, not tight": "loose"}


def panel(drawn: Panel) -> str:
    """A panel as an SVG element; its classes are `c` (chart), `m` (measured), `p` (predicted), `a` (axis).

    Marks carry the number of their point where there is more than one curve.
    """
    heights = [y for line in drawn.lines for _, y in line]
    heights += [each for _, _, row in drawn.rows for each in (row.low, row.high, row.measured) if math.isfinite(each)]
    ranges = _range([x for line in drawn.lines for x, _ in line], 0.04), _range(heights, 0.08, near=0.35)
    across = _Axis(*ranges[0], LEFT, WIDTH - RIGHT, whole=all(float(x).is_integer() for x, _, _ in drawn.rows))
    upward = _Axis(*ranges[1], HEIGHT - BOTTOM, TOP)
    parts = [f'<path class="a" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']
    parts += [_text(across(v), HEIGHT - BOTTOM + 16, text, "middle") for v, text in across.ticks()]
    parts += [_text(LEFT - 6, upward(v) + 4, text, "end") for v, text in upward.ticks()]
    parts += [_text(LEFT, 14, drawn.upward, "start"), _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, drawn.across)]
    for line in drawn.lines:
        places = [(across(x), upward(y)) for x, y in line]
        if len(line) == 1:
            places = [(across(line[0][0]) - 8, places[0][1]), (across(line[0][0]) + 8, places[0][1])]
        parts.append('<path class="p" d="M' + "L".join(f"{x:.4g} {y:.4g}" for x, y in places) + '"/>')
    numbered = len({number for _, number, _ in drawn.rows}) > 1 and len(drawn.lines) > 1
    parts += [_mark(across(x), upward, row, str(number) * numbered) for x, number, row in drawn.rows]
    label = f"{drawn.upward} against {drawn.across}: predicted curve and measured points"
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    return f'<svg class="c" {view} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def deviation(row: Comparison, kind: str) -> str:
    """Measured minus predicted in units of the effect, as a mark with its interval; a number where it lies outside.

    The mark is an empty element with its middle x and half of its width h, which the page's style draws.
    """
    if row.verdict == "outside":
        return ""
    middle, reach = scaled(row, kind)
    if not abs(middle) <= REACH:
        text = f"{middle:.3g}".replace("-", "−") if math.isfinite(middle) else "diverged"
        return f"← {text}" if middle < 0 else f"{text} →"
    # There are thousands of them, so the page's style draws and clips the mark, from two lengths in pixels.
    name = "" if row.verdict == "held" else f" {CLASSES.get(row.verdict, row.verdict)}"
    half = min(EFFECT * reach, 4 * EFFECT * REACH)
    return f'<i class="d{name}" style="--x:{EFFECT * middle:.3g};--h:{half:.3g}"></i>'


def scaled(row: Comparison, kind: str) -> tuple[float, float]:
    """Deviation and half of the interval in units of the effect; in units of that half where there is none."""
    if not math.isfinite(row.measured):
        return math.inf, 0.0
    reach = (row.high - row.low) / 2.0
    unit = effect_of(row, kind) or reach or 1.0
    return (row.measured - row.predicted) / unit, reach / unit


def effect_of(row: Comparison, kind: str) -> float:
    """The deviation D that a row had to see, from margin = (reach - deviation) / D; 0 where it cannot be told."""
    signed = row.measured - row.predicted
    room = (row.high - row.low) / 2.0 - (signed if kind in ONE_SIDED else abs(signed))
    return room / row.margin if math.isfinite(room) and math.isfinite(row.margin) and room and row.margin else 0.0


class _Axis:
    """A place on the screen for each value, linear or logarithmic."""

    def __init__(self, low: float, high: float, start: float, end: float, whole: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.whole = low, high, start, end, whole
        self.log = logarithmic(low, high)

    def __call__(self, value: float) -> float:
        value = max(self.low, min(self.high, value))
        low, high = self.low, self.high
        share = math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """At most five round values with their texts."""
        if self.log:
            tens = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            values = [10.0**k for k in tens][:: 1 + len(tens) // 5]
        else:
            raw = (self.high - self.low) / 4
            unit = 10.0 ** math.floor(math.log10(raw))
            step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= raw)
            step = max(1.0, step) if self.whole else step
            first = math.ceil(self.low / step - 1e-9)
            values = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [(value, notation.number(float(f"{value:.12g}"))) for value in values]


def _range(values: list[float], pad: float, near: float = 0.0) -> tuple[float, float]:
    """Ends of an axis with some room, a share of its length; from 0 where the least value is that near to it."""
    low, high = min(values), max(values)
    if logarithmic(low, high):
        room = (high / low) ** pad
        return low / room, high * room
    low = 0.0 if 0 < low < near * high else low
    alike = high - low <= ALIKE * max(abs(low), abs(high))
    room = (0.1 * abs(high) or 1.0) if alike else pad * (high - low)
    return (low if low == 0.0 and near else low - room), high + room


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" class="{anchor[0]}">{escape(text)}</text>'


def _mark(x: float, upward: _Axis, row: Comparison, number: str) -> str:
    """A measured point with its interval; a cross at the top where the measurement diverged."""
    name = CLASSES.get(row.verdict, row.verdict)
    if not math.isfinite(row.measured):
        return f'<text x="{x:.4g}" y="{TOP + 8}" class="m violated">×</text>'
    y, low, high = upward(row.measured), upward(row.low), upward(row.high)
    bar = f"M{x:.4g} {low:.4g}V{high:.4g}"
    bar += f"M{x - 3:.4g} {low:.4g}h6M{x - 3:.4g} {high:.4g}h6" if low - high > 2 else ""
    label = _text(x + 6, y - 6, number, "start") if number else ""
    return f'<g class="{name}"><path d="{bar}"/><circle cx="{x:.4g}" cy="{y:.4g}"/>{label}</g>'
