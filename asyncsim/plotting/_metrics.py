"""Panels of a trace and of a schedule, means against updates with intervals; `points` that a reader has measured."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from asyncsim.base import calls, checks, uncertainty
from asyncsim.base.notation import TRAINED, plural
from asyncsim.base.records import Estimate, Schedule
from asyncsim.base.trace import Trace
from asyncsim.plotting import _style

LEVEL = 0.05
POINTS = 400
"""Most positions along a line: more intervals could not be distinguished."""
BARS = 40
DECADES = 1e3
"""Ratio of largest to smallest mean from which a positive metric is drawn on a logarithmic axis."""
EDGE = 0.03
"""Room beyond the range of a bounded metric, as a share of it: a line at the bound would lie on the frame."""
MARKS = 6
"""Markers along each of several lines."""
MARKED = 8
"""Up to so many points are drawn as points: a line through one is nothing at all."""
SETTINGS = 8
"""Most settings of which each has a line: more colors cannot be distinguished."""
SERIES: tuple[tuple[str, str], ...] = (
    (_style.COLORS["measured"], "o"), (_style.COLORS["contrast"], "s"), (_style.COLORS["tuned"], "^"),
    (_style.COLORS["synchronous"], "D"), (_style.COLORS["random"], "v"), (_style.COLORS["partial"], "P"),
    (_style.INK, "X"), (_style.COLORS["muted"], "*"),
)  # fmt: skip
"""Color and marker of each setting in turn: no two differ in color alone."""
REALIZATIONS = 5
"""Fewer random realizations than this are shown by their range: the t interval of two is far wider than the data."""
MOST = 5
"""Series of points in one picture."""
NARROW = 300.0
"""Ratio of the ends of a logarithmic axis up to which its numbers stand in plain figures."""


def named(traces: Sequence[Trace] | Mapping[str, Trace]) -> dict[str, Trace]:
    """Traces by name: the given names, else the methods, systems or knobs in which they differ, else letters."""
    if not isinstance(traces, Mapping):
        heads = [trace.header.get("spec") or {} for trace in traces]
        systems = [head.get("system") or {} for head in heads]
        knobs = [s.get("knobs") or {} for s in systems]
        own = [[f"{k}={v}" for k, v in each.items() if any(o.get(k) != v for o in knobs)] for each in knobs]
        words = [[str(head.get("method", "")) for head in heads], [str(s.get("name", "")) for s in systems]]
        words.append([", ".join(each) for each in own])
        names = next((each for each in words if len(set(each)) == len(traces)), None)
        traces = dict(zip(names or [chr(ord("a") + k) for k in range(len(traces))], traces, strict=True))
    return {str(name): trace for name, trace in traces.items()}


def draw_traces(traces: Mapping[str, Trace], over: str) -> Figure:
    """Draw metrics of traces against updates or seconds, the autocorrelogram, and one trace's staleness histogram.

    Replicates of different settings are never averaged: each setting has a line of its own, of many some have.
    """
    trace, *others = traces.values()
    parts = {
        ", ".join(filter(None, (name if others else "", own))): part
        for name, each in traces.items()
        for own, part in each.split().items()
    }
    drawn = dict([list(parts.items())[k] for k in thinned(len(parts), SETTINGS)])
    common = [name for name in trace.metrics if all(name in each.metrics for each in others)]
    remedy = "record one in all of them with Spec(diagnostics=[...])"
    checks.require(bool(common or not others), "metrics", "none", "one at least that all traces have", remedy)
    panels = [partial(metric, parts=drawn, name=name, over=over) for name in common]
    if all("autocorrelogram" in each.accumulated for each in traces.values()):
        panels.append(partial(autocorrelogram, parts=drawn))
    panels += [] if others else [partial(histogram, schedule=trace.schedule)]
    columns = min(3, len(panels))
    rows, width = math.ceil(len(panels) / columns), _style.COLUMN if columns == 1 else _style.WIDTH
    lines = [counted(trace, parts, drawn)] if not others else [f"{len(traces)} runs; mean and 95 % interval of each"]
    lines = [f"{name}: {setting(each)}" if others else setting(each) for name, each in traces.items()] + lines
    title = [short for line in lines for short in textwrap.wrap(line, 38 * columns)]
    key = 0.2 * math.ceil(len(drawn) / (2 * columns)) if len(drawn) > 1 else 0.0
    figure = _style.picture(width, 0.21 + 0.14 * len(title) + 1.75 * rows + key)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, panel in zip(axes, panels, strict=False):
        panel(ax)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    if len(drawn) > 1:
        if not others:
            axes[len(panels) - 1].set_ylabel("share of trajectories\n(all settings)")
        looks = [Line2D([], [], color=color, marker=marker, markersize=3.5) for color, marker in SERIES]
        figure.legend(looks[: len(drawn)], list(drawn), loc="outside lower left", ncols=2 * columns)
    figure.suptitle("\n".join(title), x=0.01, ha="left")
    return figure


def counted(trace: Trace, parts: Mapping[str, Trace], drawn: Mapping[str, Trace]) -> str:
    """Describe how many replicates, settings and diverged replicates a picture shows, and what its bands are."""
    text, bands = plural(trace.replicates, "replicate"), "mean and 95 % interval"
    if len(parts) > 1:
        text += f" of {len(parts)} settings" + f" ({len(drawn)} of them drawn)" * (len(drawn) < len(parts))
        bands = f"{bands} of each" if trace.replicates > len(parts) else "one run each"
    if trace.partial is not None:
        text += f", stopped after {trace.partial['updates']} of {trace.partial['of']} updates"
    lost = int((trace.diverged >= 0).sum())
    return f"{text}, {f'{lost} diverged, left out from there on' if lost else 'none diverged'}; {bands}"


def setting(trace: Trace) -> str:
    """Task, method and system of a trace in one line, with the mean staleness, as far as its header has them.

    A schedule that was imposed or saved stands in the place of the system.
    """
    spec: Mapping[str, Any] = trace.header.get("spec") or {}
    system: Mapping[str, Any] = spec.get("system") or trace.schedule.header
    parts = [str(spec["task"]).replace("_", " ")] if "task" in spec else []
    parts += [f"method {spec['method']}"] if "method" in spec else []
    if "name" in system:
        knobs = [f"{key} {value}" for key, value in (system.get("knobs") or {}).items()]
        parts.append(" ".join([f"system {system['name']}", *[f"({', '.join(knobs)})"] * bool(knobs)]))
    elif "schedule" in system:
        parts.append(f"{system['schedule']} schedule")
    heads = trace.schedule.staleness()[..., 0]
    if np.isfinite(heads).any():
        parts.append(f"mean staleness {np.nanmean(heads):.3g} versions")
    return ", ".join(parts)


def draw_schedule(schedule: Schedule) -> Figure:
    """Draw a schedule's head staleness against batches, and its histogram."""
    figure = _style.picture(_style.WIDTH, 2.2)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    by_batch(left, schedule)
    histogram(right, schedule)
    name = str(schedule.header.get("name", "schedule"))
    counted = f"{schedule.batches} batches, {plural(schedule.realizations, 'realization')}"
    figure.suptitle(f"{name}: head staleness of {counted}", x=0.01, ha="left")
    return figure


def metric(ax: Axes, parts: Mapping[str, Trace], name: str, over: str = "updates") -> None:
    """Draw the mean of one metric of a trace, with its interval across realizations or replicates.

    One line for each of the traces, which are the settings of one run; intervals end at the bounds of the metric.
    """
    means, lows = [], []
    for k, trace in enumerate(parts.values()):
        rows = np.arange(len(trace.updates))
        if name == TRAINED and np.isfinite(trace[name]).any():
            # Sampled at some updates only: a line through these.
            rows = np.flatnonzero(np.isfinite(trace[name]).any(1))
        positions = rows[thinned(len(rows))]
        random, bounds = trace.schedule.random, trace.range(name)
        x, values = trace.updates[positions], trace[name][positions]
        if over == "seconds":
            clock = trace.seconds()[positions]
            x = np.linspace(0.0, clock[-1].min(), len(positions))
            values = np.stack([np.interp(x, *each) for each in zip(clock.T, values.T, strict=True)], axis=1)
        band = [interval(row, trace.realization, random, bounds) for row in values]
        means.append(line(ax, x, np.array(band), series=k if len(parts) > 1 else None))
        lows += [low for _, low, _ in band]
    ax.set(xlabel="simulated seconds" if over == "seconds" else _style.label("update"), ylabel=_style.label(name))
    mean = np.concatenate(means)
    positive = mean[np.isfinite(mean)]
    if not positive.size:
        ax.text(0.5, 0.5, "no finite value", transform=ax.transAxes, ha="center", color=_style.COLORS["muted"])
        ax.set_yticks([])
    elif not np.isfinite(lows).any():
        _style.note(ax, "a single run: no interval" if len(parts) == 1 else "single runs: no intervals")
    whole(ax.xaxis)
    low, high = next(iter(parts.values())).range(name)
    if math.isfinite(high - low):
        if positive.size:
            ax.set_ylim(low - EDGE * (high - low), high + EDGE * (high - low))
        return
    if positive.size and positive.min() > 0 and positive.max() > DECADES * positive.min():
        ax.set_yscale("log")
    if positive.size and np.array_equal(positive, np.round(positive)):
        whole(ax.yaxis)


def autocorrelogram(ax: Axes, parts: Mapping[str, Trace]) -> None:
    """Draw C_k / C_0 of gradient products at lag k, `[lags + 1, R]`, with 95 % intervals and a zero line."""
    bands = []
    for k, trace in enumerate(parts.values()):
        products = trace.accumulated["autocorrelogram"]
        finite = np.isfinite(products).all(axis=0) & (trace.diverged < 0)
        mean, low, high = np.array([correlation(trace, row, products[0], finite) for row in products]).T
        lags = np.arange(len(products))
        reach = [mean - low, high - mean]
        if len(parts) == 1:
            ax.vlines(lags, 0.0, mean, color=_style.COLORS["measured"], linewidth=1.0, alpha=0.35)
            ax.errorbar(lags, mean, yerr=reach, color=_style.COLORS["measured"], **_style.MEASURED)
        else:
            color, marker = SERIES[k]
            look = {**_style.MEASURED, "linestyle": "-", "linewidth": 0.7, "marker": marker, "markersize": 3.0}
            ax.errorbar(lags, mean, yerr=reach, color=color, **look)
        bands += [(mean, low)]
    ax.axhline(0.0, color=_style.COLORS["muted"], linewidth=0.6)
    means, lows = np.array(bands).swapaxes(0, 1)
    if not np.isfinite(lows).any():
        remark = "a single run: no interval" if len(parts) == 1 else "single runs: no intervals"
        _style.note(ax, remark if np.isfinite(means).any() else "nothing finite")
    ax.set(xlabel="lag $k$ (updates)", ylabel="gradient correlation\n$C_k/C_0$")
    whole(ax.xaxis)


def correlation(trace: Trace, top: np.ndarray, bottom: np.ndarray, finite: np.ndarray) -> tuple[float, float, float]:
    """Ratio of two means over the finite replicates, with its 95 percent interval; NaN if the divisor is 0."""
    scale = float(bottom[finite].mean()) if finite.any() else 0.0
    if scale == 0.0:
        return math.nan, math.nan, math.nan
    if finite.sum() < 2:
        return float(top[finite].mean()) / scale, math.nan, math.nan
    estimate = uncertainty.ratio(top[finite], bottom[finite], trace.realization[finite], trace.schedule.random)
    half = uncertainty.critical(LEVEL, estimate.freedom) * estimate.error if estimate.independent else math.nan
    return estimate.value, estimate.value - half, estimate.value + half


def by_batch(ax: Axes, schedule: Schedule) -> None:
    """Draw the mean head staleness of every batch with its spread across realizations, and the maximum."""
    positions = thinned(schedule.batches)
    heads = schedule.staleness()[..., 0][:, positions].reshape(schedule.realizations, len(positions), -1)
    with np.errstate(invalid="ignore"):
        means = np.nansum(heads, axis=2) / np.isfinite(heads).sum(axis=2)
    band = np.array([spread(row, schedule.random) for row in means.T])
    largest = np.where(np.isfinite(heads), heads, -np.inf).max(axis=(0, 2))
    largest[np.isinf(largest)] = np.nan
    ax.plot(positions, largest, color=_style.COLORS["muted"], linewidth=0.8, label="largest")
    few = schedule.random and schedule.realizations < REALIZATIONS
    words = f"mean and range of {schedule.realizations} realizations" if few else "mean and 95 % interval"
    one = "mean of one realization" if schedule.random else "mean"
    line(ax, positions, band, words if np.isfinite(band[:, 1]).any() else one)
    ax.set(xlabel=_style.label("batch"), ylabel=_style.label("staleness"), ylim=(0, None))
    whole(ax.xaxis)
    whole(ax.yaxis)
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderpad=0.0)


def histogram(ax: Axes, schedule: Schedule) -> None:
    """Draw the fraction of trajectories at each head staleness, with its spread across random realizations."""
    heads = schedule.staleness()[..., 0].reshape(schedule.realizations, -1)
    known = [row[np.isfinite(row)].astype(int) for row in heads]
    largest = max((int(row.max()) for row in known if row.size), default=0)
    width = math.ceil((largest + 1) / BARS)
    bins = largest // width + 1
    counts = np.array([np.bincount(row // width, minlength=bins) for row in known], dtype=float)
    share = counts.sum(axis=0) / max(1.0, counts.sum())
    position = np.arange(bins) * width + (width - 1) / 2
    ax.bar(position, share, width=0.85 * width, color=_style.COLORS["measured"], alpha=0.75, linewidth=0)
    if schedule.random and schedule.realizations > 1:
        rows = counts / np.maximum(1.0, counts.sum(axis=1, keepdims=True))
        band = np.array([spread(column, True) for column in rows.T])
        ax.vlines(position, band[:, 1], band[:, 2], color=_style.INK, linewidth=0.9)
    if counts.sum():
        # A triangle above the bars at the mean, its number on the side that has more room.
        mean, muted, above = float(np.nanmean(heads)), _style.COLORS["muted"], ax.get_xaxis_transform()
        side = 1 if mean <= largest / 2 else -1
        ax.plot(mean, 1.05, "v", color=muted, markersize=4.5, clip_on=False, transform=above)
        look: dict[str, Any] = {"ha": "left" if side > 0 else "right", "va": "center", "fontsize": 7.0, "color": muted}
        ax.annotate(f"mean {mean:.3g}", (mean, 1.05), (5 * side, 0), xycoords=above, textcoords="offset points", **look)
    ax.set(xlabel="head " + _style.label("staleness"), ylabel="share of trajectories")
    whole(ax.xaxis)


def whole(axis: Axis) -> None:
    """Set the axis of a count to integer ticks, at least one."""
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def line(
    ax: Axes, x: np.ndarray, band: np.ndarray, label: str = "mean and 95 % interval", series: int | None = None
) -> np.ndarray:
    """Draw a mean with its interval, from rows (mean, low, high), with markers for few points; return the means.

    `series`: which of several lines this is; its color and markers differ from those of the others.
    """
    mean, low, high = band.T
    color, marker = SERIES[series or 0]
    if np.isfinite(mean).sum() > MARKED:
        marks: dict[str, Any] = {}
        if series is not None:
            start = series * len(x) // (MARKS * SETTINGS)
            marks = {"marker": marker, "markersize": 3.0, "markevery": (start, max(1, len(x) // MARKS))}
        ax.fill_between(x, low, high, color=color, alpha=0.25 if series is None else 0.15, linewidth=0)
        ax.plot(x, mean, color=color, label=label, linewidth=1.0, **marks)
    else:
        look = {**_style.MEASURED, "linestyle": "-", "linewidth": 1.0, "marker": marker}
        ax.errorbar(x, mean, yerr=[mean - low, high - mean], color=color, label=label, **look)
    return mean


def interval(
    values: np.ndarray, realization: np.ndarray, random: bool, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float, float]:
    """Mean of the finite values with its 95 percent interval cut at the bounds; NaN if no valid interval exists."""
    finite = np.isfinite(values)
    if finite.sum() < 2:
        return (float(values[finite][0]) if finite.any() else math.nan), math.nan, math.nan
    estimate = uncertainty.between(values[finite], realization[finite], random)
    if not estimate.independent:
        return estimate.value, math.nan, math.nan
    half = uncertainty.critical(LEVEL, estimate.freedom) * estimate.error
    # Rounding may lift a mean over a bound that all its numbers respect.
    low, high = min(bounds[0], estimate.value), max(bounds[1], estimate.value)
    return estimate.value, max(estimate.value - half, low), min(estimate.value + half, high)


def spread(values: np.ndarray, random: bool) -> tuple[float, float, float]:
    """Mean of nonnegative values over realizations with its 95 percent interval, or their range if they are few."""
    finite = values[np.isfinite(values)]
    if random and len(finite) > 1 and len(values) < REALIZATIONS:
        return float(finite.mean()), float(finite.min()), float(finite.max())
    return interval(values, np.arange(len(values)), random, (0.0, math.inf))


def thinned(count: int, most: int = POINTS) -> np.ndarray:
    """At most `most` of `count` positions, evenly spaced, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


@calls.named
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
    with _style.applied():
        names = [*filter(None, series), *(name for name in lines if name not in series)]
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        for name, row in lines.items():
            ax.plot(along, [float(y) for y in row], **_style.PREDICTED, label="" if name in series else name, zorder=3)
        sure = [_series(ax, x, row, n, *look, joined) for (n, row), look in zip(series.items(), SERIES, strict=False)]
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title, xscale=xscale, yscale=yscale)
        _plain_numbers(ax, all(isinstance(place, (int, np.integer)) for place in x))
        if names:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        caption = "points: measured" + (", with 95% intervals" if not all(sure) else "")
        caption += "; dashed: predicted" if lines else ""
        figure.supxlabel(caption, x=0.99, ha="right", fontsize=7.0, color=_style.COLORS["muted"])
    return figure


def _match(series: Mapping[str, Any], lines: Mapping[str, Any], x: Any, along: Any) -> None:
    """Refuse what cannot be drawn: too many series, unequal lengths, or values that are not numbers."""
    checks.require(1 <= len(series) <= MOST, "measured", len(series), f"1 to {MOST} series", "draw fewer")
    for field, rows, places in (("measured", series, x), ("predicted", lines, along)):
        for name, row in rows.items():
            remedy = f"give one for each of the x{f' of {name}' if name else ''}"
            fits = all(hasattr(each, "__len__") and not isinstance(each, (str, Mapping)) for each in (row, places))
            checks.require(fits, field, row, "a sequence, as its x are", remedy)
            checks.require(len(row) == len(places), field, len(row), f"{len(places)} numbers", remedy)
            estimates = field == "measured"
            strange = [y for y in row if not (_number(y) or (estimates and isinstance(y, Estimate)))]
            what = "numbers or Estimates" if estimates else "numbers"
            checks.require(not strange, field, strange[:1], f"{what}, which points draws", remedy)


def _number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str)


def _series(ax: Axes, x: Sequence[Any], row: Sequence[Any], name: str, color: str, marker: str, joined: bool) -> bool:
    """Draw one series with its intervals; return whether it has none, like plain numbers."""
    estimates = [y if isinstance(y, Estimate) else Estimate(float(y)) for y in row]
    reach = [y.tolerance + (uncertainty.critical(0.05, y.freedom) * y.error if y.error else 0.0) for y in estimates]
    style = {**_style.MEASURED, "marker": marker, "color": color}
    if joined:
        style |= {"linestyle": "-", "linewidth": 0.7, "markersize": 2.5, "capsize": 0.0}
    ax.errorbar(x, [y.value for y in estimates], yerr=reach if any(reach) else None, label=name, **style)
    return not any(reach)


def _plain_numbers(ax: Axes, whole: bool) -> None:
    """Use plain tick numbers on short logarithmic axes, where powers of ten leave few ticks; integers for counts."""
    if whole and ax.get_xscale() == "linear":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log" and high < NARROW * low:
            steps = (1.0, 2.0, 5.0) if high > 10.0 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
            axis.set_major_locator(LogLocator(subs=steps))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
