"""Measured points on predicted lines, for numbers that a reader has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from asyncsim.base import checks, uncertainty
from asyncsim.base.records import Estimate
from asyncsim.plotting import _style

SERIES = (("measured", "o"), ("contrast", "s"), ("tuned", "^"), ("synchronous", "D"), ("random", "v"))
"""Color and marker of each series in turn: no two differ in color alone."""
NARROW = 300.0
"""Ratio of the ends of a logarithmic axis up to which its numbers stand in plain figures."""


def points(
    x: Sequence[Any],
    measured: Any,
    predicted: Any = None,
    at: Sequence[float] | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    xscale: str = "linear",
    yscale: str = "linear",
    joined: bool = False,
) -> Figure:
    """Draw measured points with 95 percent intervals, and predictions as dashed lines.

    Arguments: `x`, a number (or a name) for each point. `measured`: an `Estimate` or a number for each x, or a mapping
    from the name of a series to such a sequence (five at most). `predicted`: numbers in the same form, for each `at`
    (default: for each x). Labels of the axes, with units; `xscale`, `yscale` as in matplotlib. `joined`: whether a thin
    line joins the points of a series (a path in time). Returns a matplotlib figure that a notebook shows. Raises
    `InputError` for sequences that do not fit.

    >>> from asyncsim.base.records import Estimate
    >>> measured = [Estimate(1.1, 0.1), Estimate(1.9, 0.1)]
    >>> figure = points([1, 2], measured, predicted=[1.0, 2.0], xlabel="staleness (versions)")
    >>> figure.axes[0].get_xlabel()
    'staleness (versions)'
    """
    series = measured if isinstance(measured, Mapping) else {"": measured}
    lines = predicted if isinstance(predicted, Mapping) else {} if predicted is None else {"": predicted}
    along = x if at is None else at
    _match(series, lines, x, along)
    for field, scale in (("xscale", xscale), ("yscale", yscale)):
        checks.one_of(field, scale, ("linear", "log", "symlog", "logit", "asinh"), "name a scale of matplotlib")
    # Draw predictions, then measurements.
    with _style.applied():
        names = [*filter(None, series), *(name for name in lines if name not in series)]
        figure = _style.picture((1.9 if names else 1.5) * _style.COLUMN, 2.6)
        ax = figure.subplots()
        for name, row in lines.items():
            ax.plot(along, [float(y) for y in row], **_style.PREDICTED, label="" if name in series else name, zorder=3)
        sure = [_series(ax, x, row, n, *look, joined) for (n, row), look in zip(series.items(), SERIES, strict=False)]
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title, xscale=xscale, yscale=yscale)
        _plain_numbers(ax, all(isinstance(place, (int, np.integer)) for place in x))
        # Explain the marks.
        if names:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        caption = "points: measured" + (", with 95% intervals" if not all(sure) else "")
        caption += "; dashed: predicted" if lines else ""
        figure.supxlabel(caption, x=0.99, ha="right", fontsize=6.5, color=_style.COLORS["muted"])
    return figure


def _match(series: Mapping[str, Any], lines: Mapping[str, Any], x: Any, along: Any) -> None:
    """Refuse what cannot be drawn: too many series, lengths that differ, or values that are no numbers."""
    checks.require(1 <= len(series) <= len(SERIES), "measured", len(series), f"1 to {len(SERIES)} series", "draw fewer")
    for field, rows, places in (("measured", series, x), ("predicted", lines, along)):
        for name, row in rows.items():
            remedy = f"give one for each of the x{f' of {name}' if name else ''}"
            checks.require(_listed(row) and _listed(places), field, row, "a sequence, as its x are", remedy)
            checks.require(len(row) == len(places), field, len(row), f"{len(places)} numbers", remedy)
            estimates = field == "measured"
            strange = [y for y in row if not (_number(y) or (estimates and isinstance(y, Estimate)))]
            what = "numbers or Estimates" if estimates else "numbers"
            checks.require(not strange, field, strange[:1], f"{what}, which points draws", remedy)


def _listed(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, (str, Mapping))


def _number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str)


def _series(ax: Axes, x: Sequence[Any], row: Sequence[Any], name: str, color: str, marker: str, joined: bool) -> bool:
    """One series with its intervals; whether it has none, as plain numbers have not."""
    estimates = [y if isinstance(y, Estimate) else Estimate(float(y)) for y in row]
    reach = [y.tolerance + (uncertainty.critical(0.05, y.freedom) * y.error if y.error else 0.0) for y in estimates]
    style = {**_style.MEASURED, "marker": marker, "color": _style.COLORS[color]}
    if joined:
        style |= {"linestyle": "-", "linewidth": 0.7, "markersize": 2.5, "capsize": 0.0}
    ax.errorbar(x, [y.value for y in estimates], yerr=reach if any(reach) else None, label=name, **style)
    return not any(reach)


def _plain_numbers(ax: Axes, whole: bool) -> None:
    """Plain figures on logarithmic axes that span little, where powers of ten leave them bare; whole ones of counts."""
    if whole and ax.get_xscale() == "linear":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log" and high < NARROW * low:
            steps = (1.0, 2.0, 5.0) if high > 10.0 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
