"""Panels of a trace and of a schedule: means against updates with intervals, staleness by batch and its histogram."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from asyncsim import uncertainty
from asyncsim.plotting import _style
from asyncsim.records import Schedule
from asyncsim.trace import Trace

LEVEL = 0.05
POINTS = 400
"""Most positions along a line: an interval each at more of them would not be seen."""
BARS = 40
DECADES = 1e3
"""Ratio of largest to smallest mean from which a positive metric is drawn on a logarithmic axis."""


def draw_trace(trace: Trace) -> Figure:
    """Every metric against updates, and the histogram of staleness."""
    columns = min(3, len(trace.metrics) + 1)
    rows = math.ceil((len(trace.metrics) + 1) / columns)
    figure = _style.picture(2.6 * columns, 0.35 + 1.75 * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, name in zip(axes, trace.metrics, strict=False):
        metric(ax, trace, name)
    histogram(axes[len(trace.metrics)], trace.schedule)
    for ax in axes[len(trace.metrics) + 1 :]:
        ax.set_visible(False)
    diverged = int((trace.diverged >= 0).sum())
    left_out = f"; {diverged} diverged, left out from there on" if diverged else ""
    figure.suptitle(f"{trace.replicates} replicates{left_out}; mean and 95 % interval", x=0.01, ha="left")
    return figure


def draw_schedule(schedule: Schedule) -> Figure:
    """Head staleness against batches, and its histogram."""
    figure = _style.picture(2 * _style.COLUMN, 2.2)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    by_batch(left, schedule)
    histogram(right, schedule)
    name = str(schedule.header.get("name", "schedule"))
    count = f"{schedule.realizations} realization{'s' if schedule.realizations > 1 else ''}"
    figure.suptitle(f"{name}: head staleness of {schedule.batches} batches, {count}", x=0.01, ha="left")
    return figure


def metric(ax: Axes, trace: Trace, name: str) -> Axes:
    """Mean of one metric with its interval between realizations, or replicates where schedules are not random."""
    shown = thinned(len(trace.updates))
    band = [interval(row, trace.realization, trace.schedule.random) for row in trace[name][shown]]
    mean = line(ax, trace.updates[shown], np.array(band))
    ax.set(xlabel=_style.label("update"), ylabel=_style.label(name))
    if not np.isfinite([low for _, low, _ in band]).any():
        _style.note(ax, "a single run: no interval")
    positive = mean[np.isfinite(mean)]
    if positive.size and positive.min() > 0 and positive.max() > DECADES * positive.min():
        ax.set_yscale("log")
    return ax


def by_batch(ax: Axes, schedule: Schedule) -> Axes:
    """Mean head staleness of every batch with its interval between realizations, and the largest."""
    shown = thinned(schedule.batches)
    heads = head_staleness(schedule)[:, shown].reshape(schedule.realizations, len(shown), -1)
    with np.errstate(invalid="ignore"):
        means = np.nansum(heads, axis=2) / np.isfinite(heads).sum(axis=2)
    each = np.arange(schedule.realizations)
    band = np.array([interval(row, each, schedule.random) for row in means.T])
    largest = np.where(np.isfinite(heads), heads, -np.inf).max(axis=(0, 2))
    largest[np.isinf(largest)] = np.nan
    ax.plot(shown, largest, color=_style.COLORS["muted"], linewidth=0.8, label="largest")
    one = "mean of one realization" if schedule.random else "mean"
    line(ax, shown, band, "mean and 95 % interval" if np.isfinite(band[:, 1]).any() else one)
    ax.set(xlabel=_style.label("batch"), ylabel=_style.label("staleness"), ylim=(0, None))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderpad=0.0)
    return ax


def histogram(ax: Axes, schedule: Schedule) -> Axes:
    """Share of trajectories at each head staleness, with intervals between realizations where they differ by chance."""
    heads = head_staleness(schedule).reshape(schedule.realizations, -1)
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
        band = np.array([interval(column, np.arange(len(rows)), True) for column in rows.T])
        ax.vlines(position, np.maximum(band[:, 1], 0.0), band[:, 2], color=_style.INK, linewidth=0.9)
    if counts.sum():
        top = ax.get_xaxis_transform()
        ax.plot(np.nanmean(heads), 1.0, "v", color=_style.COLORS["muted"], clip_on=False, transform=top)
        _style.note(ax, f"▾ mean {np.nanmean(heads):.3g}")
    ax.set(xlabel="head " + _style.label("staleness"), ylabel="share of trajectories")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def line(ax: Axes, x: np.ndarray, band: np.ndarray, label: str = "mean and 95 % interval") -> np.ndarray:
    """A mean with its interval, from rows (mean, low, high); returns the means."""
    mean, low, high = band.T
    ax.fill_between(x, low, high, color=_style.COLORS["measured"], alpha=0.25, linewidth=0)
    ax.plot(x, mean, color=_style.COLORS["measured"], label=label, linewidth=1.0)
    return mean


def interval(values: np.ndarray, realization: np.ndarray, random: bool) -> tuple[float, float, float]:
    """Mean of what is finite with its 95 percent interval; NaN bounds where no honest one exists."""
    kept = np.isfinite(values)
    if kept.sum() < 2:
        return (float(values[kept][0]) if kept.any() else math.nan), math.nan, math.nan
    found = uncertainty.between(values[kept], realization[kept], random)
    half = uncertainty.critical(LEVEL, found.freedom) * found.error if found.independent else math.nan
    return found.value, found.value - half, found.value + half


def head_staleness(schedule: Schedule) -> np.ndarray:
    """Staleness of every trajectory's first token in versions, float `[M, B, G, N]`; NaN where unknown."""
    first = schedule.version[..., 0].astype(float)
    return np.where(first < 0, np.nan, schedule.train_version[None, :, None, None] - first)


def thinned(count: int) -> np.ndarray:
    """At most `POINTS` of so many positions, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))
