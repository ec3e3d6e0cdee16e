"""A timeline: one lane per place colored by the version that generates, training and publishes below."""

from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from asyncsim.base.records import Timeline
from asyncsim.plotting import _style
from asyncsim.plotting._pieces import count, pieces, written_until

PLACES = 24
BATCHES = 16
"""A page holds so many lanes and so many batches; the title says what is left out."""


def draw_timeline(timeline: Timeline) -> Figure:
    """Who generated what under which version, what was trained and when weights moved."""
    places = 1 + int(timeline.samples["place"].max(initial=0))
    lanes, end = min(places, PLACES), window(timeline)
    queued = bool(timeline.groups)
    figure = _style.picture(2 * _style.COLUMN, 1.4 + 0.7 * queued + 0.15 * max(4, lanes))
    # Lay out the panels.
    heights = [max(4.0, lanes), *[5.0] * queued, 2.5]
    upper, *middle, lower = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    newest = int(np.sum(timeline.publishes["t_install"] < end))
    # Draw generation, queue and training.
    norm = BoundaryNorm(np.arange(newest + 2) - 0.5, newest + 1)
    generation(upper, timeline, lanes, end, norm)
    for ax in middle:
        queue(ax, timeline, end)
    training(lower, timeline, end, norm)
    for ax in (upper, *middle, lower):
        for installed in timeline.publishes["t_install"][:newest]:
            ax.axvline(installed, color=_style.INK, linewidth=0.5, alpha=0.5, zorder=0.5)
    # Explain the colors.
    bar = figure.colorbar(ScalarMappable(norm, colors(newest + 1)), ax=[upper, *middle, lower], pad=0.01, aspect=30)
    bar.set_label(_style.label("version"))
    bar.minorticks_off()
    bar.set_ticks(range(0, newest + 1, math.ceil((newest + 1) / 9)))
    batches = len(timeline.batches["batch"])
    # Say what is left out.
    some = f"first {lanes} of {places} places" if lanes < places else f"{places} place{'s' if places > 1 else ''}"
    some += f", first {BATCHES} of {batches} batches" if batches > BATCHES else f", {batches} batches"
    cut = "shown: " if lanes < places or batches > BATCHES else ""
    name = timeline.header.get("name", "system")
    figure.suptitle(f"{name}: {cut}{some}; color is the version that generates or is trained", x=0.01, ha="left")
    return figure


def generation(ax: Axes, timeline: Timeline, lanes: int, end: float, norm: BoundaryNorm) -> Axes:
    """Bars of all samples, those of one group side by side in the lane of its place; unfinished ones are pale."""
    samples = timeline.samples
    size = int(np.bincount(samples["group"]).max()) if len(samples["group"]) else 1
    bars, versions, pale = [], [], []
    for n in np.flatnonzero((samples["place"] < lanes) & (samples["t_start"] < end)).tolist():
        top = samples["place"][n] - 0.4 + 0.8 * (samples["sample"][n] % size) / size
        finished = bool(np.isfinite(samples["t_end"][n]))
        for left, right, version in pieces(timeline, n, written_until(timeline, n, end)):
            bars.append((left, right, top, top + 0.8 / size))
            versions.append(version)
            pale.append(not finished)
    draw_bars(ax, bars, versions, norm, pale)
    ax.set(ylim=(lanes - 0.4, -0.6), ylabel="place", yticks=range(0, lanes, math.ceil(lanes / 8)))
    return ax


def training(ax: Axes, timeline: Timeline, end: float, norm: BoundaryNorm) -> Axes:
    """Bars of all batches by the version they are trained at, and of weights on their way to the generators."""
    batches, publishes = timeline.batches, timeline.publishes
    bars, versions = [], []
    for start, stop, version in zip(batches["t_start"], batches["t_end"], batches["version"], strict=True):
        if start < end:
            bars.append((start, min(stop, end), -0.4, 0.4))
            versions.append(int(version))
    draw_bars(ax, bars, versions, norm, [False] * len(bars))
    for start, stop in zip(publishes["t_snapshot"], publishes["t_install"], strict=True):
        if stop <= end:
            ax.plot([start, stop], [1, 1], color=_style.INK, linewidth=2.0, solid_capstyle="butt")
            ax.plot(stop, 1, marker="^", markersize=3.5, color=_style.INK, clip_on=False)
    ax.set(ylim=(1.6, -0.6), yticks=[0, 1], yticklabels=["train", "publish"])
    ax.set(xlim=(0, end), xlabel="simulated time (s)")
    return ax


def queue(ax: Axes, timeline: Timeline, end: float) -> Axes:
    """Groups in generation, and on top of them those that are finished and not in training yet, over time."""
    groups = timeline.groups
    generating = count(groups["t_submit"], np.fmin(groups["t_done"], groups["t_left"]))
    waiting = count(groups["t_done"], groups["t_left"])
    times = np.unique(np.concatenate([generating[0], waiting[0], [0.0, end]]))
    times = times[times <= end]
    below, above = at(generating, times), at(waiting, times)
    ax.fill_between(times, 0, below, step="post", color=_style.COLORS["effect"], linewidth=0)
    ax.fill_between(times, below, below + above, step="post", color=_style.COLORS["muted"], alpha=0.6, linewidth=0)
    top = max(1.0, float((below + above).max()))
    ax.set(ylim=(0, 1.45 * top), ylabel="groups")
    ax.legend(["in generation", "finished, waiting"], loc="upper right", ncols=2)
    return ax


def at(steps: tuple[np.ndarray, np.ndarray], times: np.ndarray) -> np.ndarray:
    """Values of a step curve, zero before its first step."""
    return np.concatenate([[0.0], steps[1]])[np.searchsorted(steps[0], times, side="right")]


def draw_bars(
    ax: Axes, bars: list[tuple[float, float, float, float]], versions: list[int], norm: BoundaryNorm, pale: list[bool]
) -> None:
    """Rectangles (left, right, top, bottom) in the colors of their versions."""
    corners = [((a, c), (b, c), (b, d), (a, d)) for a, b, c, d in bars]
    face = colors(norm.Ncmap)(norm(np.array(versions, dtype=float)))
    face[:, 3] = np.where(pale, 0.35, 1.0)
    ax.add_collection(PolyCollection(corners, facecolors=face, edgecolors="white", linewidths=0.4))


def colors(count: int) -> ListedColormap:
    """A color for each version: blue for even ones, orange for odd ones, so that neighbors differ; newer ones pale."""
    depth = np.linspace(0.95, 0.35, max(count, 2))
    return ListedColormap([mpl.colormaps[("Blues", "Oranges")[k % 2]](depth[k]) for k in range(count)])


def window(timeline: Timeline) -> float:
    """Seconds shown: until the last batch of the page has trained, or the record ends."""
    ends = timeline.batches["t_end"]
    ends = ends[np.isfinite(ends)]
    if len(ends) > BATCHES:
        return float(ends[BATCHES - 1])
    latest = [*ends, *timeline.publishes["t_install"], *timeline.samples["t_end"], *timeline.samples["t_start"]]
    return float(timeline.header.get("seconds", np.nanmax(latest)))
