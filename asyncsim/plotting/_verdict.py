"""A verdict: measured on predicted against the one parameter that varies, else deviations in units of the effect."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asyncsim.base import notation
from asyncsim.base.records import Comparison, Verdict
from asyncsim.plotting import _style
from asyncsim.plotting._curves import effect_of, name_points, scaled

PANELS = 6
ROWS = 40
WIDEST = 4.0
"""Effects either side of 0 that the dot plot reaches; what lies farther is marked at the edge with its number."""


def draw_verdict(verdict: Verdict) -> Figure:
    """Draw the measured and predicted values of all comparisons in a claim's verdict."""
    judged = [row for row in verdict.points if row.verdict != "outside"]
    key, left_out = varied(judged), ""
    quantities = list(dict.fromkeys(row.quantity for row in judged))
    if key is not None and len(quantities) <= PANELS:
        columns = min(3, len(quantities))
        lines = math.ceil(len(quantities) / columns)
        figure = _style.picture(_style.COLUMN if columns == 1 else _style.WIDTH, 0.7 + 2.0 * lines)
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        for ax, quantity in zip(axes, quantities, strict=False):
            against(ax, [row for row in judged if row.quantity == quantity], key)
        for ax in axes[len(quantities) :]:
            ax.set_visible(False)
    else:
        rows = sorted(judged, key=lambda row: row.margin)[:ROWS]
        rows = [row for row in judged if any(row is each for each in rows)]
        figure = _style.picture(_style.WIDTH, 1.3 + 0.17 * max(len(rows), 2))
        deviations(figure.subplots(), rows, labels(rows, verdict.points), verdict.kind)
        if len(rows) < len(judged):
            left_out = f"; the {ROWS} of {len(judged)} comparisons with the least margin"
    statement = verdict.statement.replace("`", "").replace("$", r"\$")
    lines_of_it = textwrap.wrap(statement, int(15.5 * figure.get_figwidth()))
    title = "\n".join([*lines_of_it, f"{verdict.id}: {verdict.verdict}{left_out}"])
    figure.suptitle(title, x=0.01, ha="left", color=_style.COLORS[verdict.verdict])
    return figure


def varied(rows: Sequence[Comparison]) -> str | None:
    """Name of the parameter that alone differs between a claim's points, if it is numeric with three values or more."""
    keys = list(dict.fromkeys(key for row in rows for key in row.point))
    changing = [key for key in keys if len({repr(row.point.get(key)) for row in rows}) > 1]
    if len(changing) != 1:
        return None
    values = [row.point.get(changing[0]) for row in rows]
    numeric = all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in values)
    return changing[0] if numeric and len(set(values)) >= 3 else None


def against(ax: Axes, rows: Sequence[Comparison], key: str) -> None:
    """Draw a claim's quantity against the parameter: measured with intervals, predicted dashed, violations colored."""
    rows = sorted(rows, key=lambda row: row.point[key])
    x = [row.point[key] for row in rows]
    ax.plot(x, [row.predicted for row in rows], label="predicted", marker="_", markersize=7, **_style.PREDICTED)
    for verdict in ("held", "holds, not tight", "violated", "inconclusive"):
        color = label = "measured" if verdict == "held" else verdict
        chosen = [row for row in rows if row.verdict == verdict and math.isfinite(row.measured)]
        if chosen:
            at, middle = [row.point[key] for row in chosen], [row.measured for row in chosen]
            reach = [[row.measured - row.low for row in chosen], [row.high - row.measured for row in chosen]]
            ax.errorbar(at, middle, yerr=reach, color=_style.COLORS[color], label=label, **_style.MEASURED)
    for row in rows:
        if not math.isfinite(row.measured):
            ax.axvline(row.point[key], color=_style.COLORS["violated"], linewidth=0.8, label="diverged")
    if min(x) > 0 and max(x) > 30 * min(x):
        ax.set_xscale("log")
    elif all(isinstance(value, int) for value in x):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel=_style.label(key), ylabel=rows[0].quantity.replace("_", " "))
    handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    ax.legend(handles.values(), handles.keys())


def deviations(ax: Axes, rows: Sequence[Comparison], names: Sequence[str], kind: str) -> None:
    """Draw measured minus predicted of each comparison in units of the effect, on a band of one effect.

    Predicted and measured numbers stand at the right of their row.
    """
    places = [scaled(row, kind) for row in rows]
    bare = [math.isfinite(row.measured) and not effect_of(row, kind) for row in rows]
    names = [name + " †" * mark for name, mark in zip(names, bare, strict=True)]
    if any(bare):
        _style.note(ax, "† no effect is defined here: in units of half the interval")
    if not rows:
        ax.text(0.0, 0.5, "every point is outside the domain", ha="center", transform=ax.get_xaxis_transform())
    finite = [abs(edge) for middle, reach in places for edge in (middle - reach, middle + reach) if math.isfinite(edge)]
    edge = min(WIDEST, 1.15 * max([1.1, *finite]))
    ax.axvspan(-1.0, 1.0, color=_style.COLORS["effect"], linewidth=0, zorder=0)
    ax.axvline(0.0, **_style.PREDICTED)
    for place, (row, (middle, reach)) in enumerate(zip(rows, places, strict=True)):
        color = _style.COLORS["measured" if row.verdict == "held" else row.verdict]
        if not abs(middle) <= edge:
            side, mark, align = (-1.0, "<", "left") if middle < 0 else (1.0, ">", "right")
            tip = (side * 0.98 * edge, place)
            ax.plot(*tip, marker=mark, color=color, markersize=6, clip_on=False)
            text = f"{middle:.3g}" if math.isfinite(middle) else "diverged"
            look: dict[str, Any] = {"fontweight": "bold", "fontsize": 7.0, "color": color, "ha": align, "va": "center"}
            ax.annotate(text, tip, (-7 * side, 0), textcoords="offset points", annotation_clip=False, **look)
        else:
            ax.errorbar([middle], [place], xerr=[[reach], [reach]], color=color, **_style.MEASURED)
            for side, mark in ((-1.0, "<"), (1.0, ">")):
                if side * middle + reach > edge:
                    ax.plot(side * 0.98 * edge, place, marker=mark, color=color, markersize=4, clip_on=False)
    ax.set(xlim=(-edge, edge), ylim=(len(rows) - 0.4, -0.6), yticks=range(len(rows)), yticklabels=names)
    ax.set_xlabel("(measured − predicted) / smallest deviation that must be seen (shaded: less)")
    ax.tick_params(axis="y", length=0)
    if rows:
        beside(ax, rows)


def beside(ax: Axes, rows: Sequence[Comparison]) -> None:
    """Print predicted and measured numbers at the right end of every row, colored if the verdict is not held."""
    predicted = ["predicted", *(notation.number(row.predicted) for row in rows)]
    wide = max(len(text) for text in predicted)
    measured = ["measured"]
    for row in rows:
        half = (row.high - row.low) / 2.0
        number = notation.measurement(row.measured, half, row.predicted) if math.isfinite(row.measured) else "diverged"
        measured.append(number)
    lines = [f"{a:>{wide}}  {b}" for a, b in zip(predicted, measured, strict=True)]
    right = ax.secondary_yaxis("right")
    right.set_yticks(range(-1, len(rows)), lines, fontfamily="DejaVu Sans Mono", fontsize=7.0)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    ax.set_ylim(top=-1.4)
    for text, row in zip(right.get_yticklabels()[1:], rows, strict=True):
        text.set_color(_style.INK if row.verdict == "held" else _style.COLORS[row.verdict])


def labels(rows: Sequence[Comparison], everything: Sequence[Comparison]) -> list[str]:
    """Name of each comparison: its quantity and the parameters that distinguish its point, shortest first."""
    points: list[dict[str, Any]] = []
    for row in everything:
        if row.point not in points:
            points.append(row.point)
    names = name_points(points)
    ends = [f"  ({names[points.index(row.point)]})" if len(points) > 1 else "" for row in rows]
    return [row.quantity.replace("_", " ") + end for row, end in zip(rows, ends, strict=True)]
