"""What the figures on VCPO share: the looks of its arms, points with intervals, and numbers as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _methods, _script

COLOR, INK = _style.COLORS, _style.INK
SYNCHRONOUS, TRUNCATED, VCPO = (_methods.look(name) for name in ("synchronous", "truncated IS", "VCPO"))
HOLLOW: dict[str, Any] = {"markerfacecolor": "white"}
CONNECTED: dict[str, Any] = {"linestyle": "solid", "linewidth": 0.9}
LETTERS: dict[str, Any] = {"fontsize": 7.5}
TASK: dict[str, dict[str, Any]] = {
    task: {"color": COLOR[task], "marker": marker}
    for task, marker in (("bandit", "v"), ("graded", "s"), ("sparse", "D"))
}
"""Looks of tasks in one panel."""


def points(ax: Axes, x: Any, own: Any, sideways: bool = False, scale: Any = 1.0, **look: Any) -> Any:
    """Values of rows with their intervals, at these places."""
    value, reach = own.value * scale, [(own.value - own.low) * scale, (own.high - own.value) * scale]
    style = {**_style.MEASURED, **look}
    if sideways:
        return ax.errorbar(value, x, xerr=reach, **style)
    return ax.errorbar(x, value, yerr=reach, **style)


def say(ax: Axes, x: Any, y: float, text: str, color: str = INK, **more: Any) -> None:
    """A label at a place of the data."""
    ax.text(x, y, text, color=color, **{**LETTERS, "va": "center", **more})


def side(ax: Axes, text: str, x: float = 0.98, y: float = 0.06) -> None:
    """What a side of a plot of differences means, at the right end of this height, in shares of the panel."""
    say(ax, x, y, text, COLOR["muted"], ha="right", transform=ax.transAxes)


def percents(axis: Any) -> None:
    """Shares in percent."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def ends(ax: Axes, lines: Mapping[str, tuple[float, str]], gap: float = 0.075) -> None:
    """Names of lines at their ends, right of the axes, whose limits are set: heights and colors by name."""
    heights = {
        name: float(ax.transAxes.inverted().transform(ax.transData.transform((ax.get_xlim()[1], y)))[1])
        for name, (y, _) in lines.items()
    }
    order = sorted(lines, key=heights.__getitem__)
    for name, height in zip(order, _script.apart(heights.values(), gap), strict=True):
        ax.text(1.02, height, name, color=lines[name][1], transform=ax.transAxes, **{**LETTERS, "va": "center"})


def ticks(axis: Any, places: Any, labels: Any = None) -> None:
    """These ticks and no others."""
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([f"{place:g}" for place in places] if labels is None else labels)


def below(figure: Figure, handles: Any, **more: Any) -> None:
    """Names of marks in a line below the title, which needs the line above."""
    look: dict[str, Any] = {"loc": "outside upper left", "frameon": False, "title": " ", "ncols": len(handles)}
    figure.legend(handles=handles, **{**look, **more})


def legend(figure: Figure, axes: Iterable[Axes], looks: Mapping[str, Any], smallest: float) -> None:
    """Names of the marks of `looks`, and of the band of differences that count as none in every panel."""
    for ax in axes:
        ax.axvspan(-smallest, smallest, color=COLOR["effect"], linewidth=0)
        ax.axvline(0.0, **_style.REFERENCE)
    marks: list[Any] = [Line2D([], [], linestyle="none", label=name, **style) for name, style in looks.items()]
    marks.append(Patch(color=COLOR["effect"], label=f"within ±{smallest:g}"))
    below(figure, marks)


def shares(ax: Axes) -> None:
    """The whole range of a share, in percent."""
    ax.set(ylim=(-0.03, 1.05), yticks=[0, 0.25, 0.5, 0.75, 1])
    percents(ax.yaxis)


def value(row: Any, sign: str = "") -> str:
    """A mean with half of its interval."""
    reach = (row.high - row.low) / 2
    digits = 2 if reach >= 0.005 else 3 if reach >= 0.0005 else 4
    return f"{row.value:{sign}.{digits}f} ± {reach:.{digits}f}".replace("-", "−")


def share(row: Any) -> str:
    """A share in percent with its interval."""
    low, high = 100 * row.low, 100 * row.high
    digits = 0 if high - low >= 4 else 1
    return f"{100 * row.value:.{digits}f} % ({low:.{digits}f} to {high:.{digits}f})"


def spread(row: Any, digits: int = 2) -> str:
    """A value with the ends of its interval."""
    return f"{row.value:.{digits}f} ({row.low:.{digits}f} to {row.high:.{digits}f})"
