"""How the share of samples that still count falls with staleness and length, and what a small batch can say of it."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from asyncsim.plotting import _style
from paper_figures import _script, _vcpo_ess

EXPERIMENTS = ("vcpo_ess",)
numbers = _vcpo_ess.numbers
MARKERS = {4: "o", 16: "s", 64: "^"}
"""Of the lengths whose runs go on into training."""
SHADES = {4: "#e8963a", 16: "#d1690e", 64: "#7d3802"}
"""Lengths are shades of the color of stale data."""
CHANCE: dict[str, Any] = {"color": _style.COLORS["muted"], "marker": "D", "mfc": "white"}


def points(ax: Axes, x: Any, own: Any, scale: Any = 1.0, **look: Any) -> None:
    """Measured values with their intervals."""
    reach = [(own.value - own.low) * scale, (own.high - own.value) * scale]
    ax.errorbar(x, own.value * scale, yerr=reach, **{**_style.MEASURED, **look})


def staleness_axis(ax: Axes) -> None:
    """Powers of 2, in updates."""
    ax.set_xscale("log", base=2)
    ax.set(xlim=(0.8, 160.0), xlabel="staleness (updates since the data was written)")
    ax.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16, 32, 64, 128]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels(["1", "2", "4", "8", "16", "32", "64", "128"])


def share_axis(ax: Axes, batch: int) -> None:
    """ESS/N on a log axis, with its floor."""
    ax.axhline(1.0 / batch, color=_style.COLORS["muted"], linewidth=0.6, linestyle=":")
    ax.text(0.02, 1.04 / batch, f"one sample of {batch}", transform=ax.get_yaxis_transform(), fontsize=6.5, va="bottom",
            color=_style.COLORS["muted"])  # fmt: skip
    ax.set_yscale("log")
    ax.set(
        ylim=(0.8 / batch, 1.35),
        ylabel="ESS/N: share of samples\nthat still count",
        yticks=[0.02, 0.05, 0.1, 0.2, 0.5, 1],
    )
    ax.set_yticklabels(["2 %", "5 %", "10 %", "20 %", "50 %", "100 %"])
    ax.yaxis.set_minor_formatter(NullFormatter())


def draw_drift(ax: Axes, rows: Any) -> Axes:
    """Variance per token against staleness, with the law of one update."""
    every = np.geomspace(1.0, 128.0, 60)
    for reward in ("tokens", "chance"):
        ax.plot(every, _vcpo_ess.law(rows, reward, every), **_style.PREDICTED)
    own = _vcpo_ess.means(rows, "start", "log_variance")
    for length, marker in MARKERS.items():
        some = own[own.length == length]
        points(ax, some.staleness, some, 1.0 / length, color=SHADES[length], marker=marker, label=f"{length} tokens")
    some = _vcpo_ess.means(rows, "start", "log_variance", "chance")
    points(ax, some.staleness, some, 1.0 / some.length, **CHANCE)
    late = _vcpo_ess.means(rows, "training", "log_variance")
    late = late[late.length == 16]
    ax.plot(late.staleness, late.value / late.length, "x", color=SHADES[16], markersize=4.5)
    ax.set_yscale("log")
    ax.set(
        ylabel="variance of a token's\nlog ratio (nats$^2$)",
        title="How fast do new and old policy part?",
        ylim=(8e-6, 2.0),
    )
    staleness_axis(ax)
    ax.text(0.03, 0.97, "dashed: predicted from the first update", transform=ax.transAxes, va="top", fontsize=6.5)
    ax.text(1.0, 9e-4, "paid by chance: $\\propto$ staleness", color=_style.COLORS["muted"], fontsize=6.5, rotation=20)
    told = "paid for right tokens: $\\propto$ staleness$^2$\n(●, ■, ▲: sequences of\n4, 16, 64 tokens)"
    ax.text(5.5, 4.5e-4, told, color=SHADES[16], fontsize=6.5, va="top")
    told = "×  16 tokens, amid learning:\n    the first update cannot know"
    ax.text(3.2, 1.1e-5, told, color=SHADES[16], fontsize=6.5, va="bottom")
    return ax


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """ESS of batches amid training, with what N samples of the very policies show, and infinitely many."""
    share_axis(ax, int(rows.batch.iloc[0]))
    for length, marker in MARKERS.items():
        own = _vcpo_ess.means(rows, "training", "ess")
        own = own[own.length == length]
        found = [_vcpo_ess.realized(part) for part in _vcpo_ess.readings(rows, own)]
        ax.plot(own.staleness, [np.mean([each.ess for each in some]) for some in found], **_style.PREDICTED)
        limit = [np.mean([each.limit for each in some]) for some in found]
        ax.plot(own.staleness, limit, color=SHADES[length], linestyle=":", linewidth=1.0)
        points(ax, own.staleness, own, color=SHADES[length], marker=marker)
    for length, place in ((4, (70.0, 0.68)), (16, (88.0, 0.13)), (64, (8.0, 0.36))):
        ax.text(*place, f"{length} tokens", color=SHADES[length], fontsize=6.5)
    staleness_axis(ax)
    ax.set(title="Fewer samples count the older they are")
    return ax


def draw_length(ax: Axes, rows: Any) -> Axes:
    """ESS of the last batch of the initial policy against length, and the law of one update as far as it goes."""
    share_axis(ax, int(rows.batch.iloc[0]))
    own, stop = _vcpo_ess.means(rows, "start", "ess"), _vcpo_ess.trusted(rows)
    for staleness, marker, tint in ((16, "o", SHADES[4]), (64, "D", SHADES[64])):
        some = own[own.staleness == staleness].sort_values("length")
        v = float(_vcpo_ess.law(rows, "tokens", staleness))
        lengths = np.geomspace(1.0, stop / v, 40)
        ax.plot(lengths, np.exp(-v * lengths), **_style.PREDICTED)
        ax.plot(lengths[-1], math.exp(-stop), marker="|", color=_style.INK, markersize=9)
        points(ax, some.length, some, color=tint, marker=marker)
        ax.text(*((70.0, 0.6) if staleness == 16 else (40.0, 0.12)), f"staleness {staleness}", color=tint)
    ax.set_xscale("log", base=2)
    ax.set(xlim=(1.6, 160.0), xlabel="length of a sequence (tokens)", title="… and the longer: exp(−variance × length)")
    ax.xaxis.set_major_locator(FixedLocator([2, 4, 8, 16, 32, 64, 128]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels(["2", "4", "8", "16", "32", "64", "128"])
    told = "dashed: predicted from the first update;\nat | the batch is too small to tell"
    ax.text(0.03, 0.24, told, transform=ax.transAxes, fontsize=6.5)
    return ax


def draw_share(ax: Axes, rows: Any) -> Axes:
    """Largest share of one sample, with Hill's reading of the longest sequences."""
    for length, marker in MARKERS.items():
        own = _vcpo_ess.means(rows, "training", "largest_share")
        own = own[own.length == length]
        found = [_vcpo_ess.realized(part) for part in _vcpo_ess.readings(rows, own)]
        ax.plot(own.staleness, [np.mean([each.share for each in some]) for some in found], **_style.PREDICTED)
        points(ax, own.staleness, own, color=SHADES[length], marker=marker)
        if length == _vcpo_ess.LONGEST:
            hill = _vcpo_ess.means(rows, "training", "inverse_tail")
            hill = hill[hill.length == length].set_index("staleness").value
            for staleness, value in zip(own.staleness, own.value, strict=True):
                told = _vcpo_ess.index(hill[staleness])
                ax.annotate(told, (staleness, value), (-1, 4), textcoords="offset points", ha="right", fontsize=6.5)
    staleness_axis(ax)
    for length, place in ((4, (92.0, 0.06)), (16, (95.0, 0.3)), (64, (15.0, 0.5))):
        ax.text(*place, f"{length} tokens", color=SHADES[length], fontsize=6.5)
    title = "One sample comes to outweigh the rest"
    ax.set(
        ylabel="weight of the heaviest sample\nover the weight of all",
        title=title,
        ylim=(0.0, 0.85),
        xlim=(0.65, 160.0),
    )
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    told = (
        "numbers: tail index that Hill's estimator reads\n"
        "(64 tokens). Below 2 a tail has no variance; yet\nthese ratios are bounded, all moments finite."
    )
    ax.text(0.03, 0.97, told, transform=ax.transAxes, va="top", fontsize=6.5)
    return ax


def draw(rows: Any) -> Figure:
    """Drift of policies, ESS against staleness and length, and the heaviest sample."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 5.6)
        (one, two), (three, four) = figure.subplots(2, 2)
        draw_drift(one, rows)
        draw_staleness(two, rows)
        draw_length(three, rows)
        draw_share(four, rows)
        batch, replicates = int(rows.batch.iloc[0]), int(_vcpo_ess.means(rows, "training", "ess").samples.iloc[0])
        text = (
            f"A policy learns from batches of {batch} sequences that an older version of it wrote. Varied: how old it "
            "was, and how long the sequences are. Measured: the importance ratios (new over old probability) of a "
            f"batch, means over {replicates} runs with 95 % intervals. Dashed: predicted, nothing is fitted; left from "
            "the first update alone, right from both policies of a batch and its size. Dotted: the same for a batch "
            "without end, which a small batch overrates."
        )
        _script.caption(figure, *textwrap.wrap(text, 112))
    return figure
