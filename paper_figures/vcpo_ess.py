"""How the share of samples that still count falls with staleness and length, and what a small batch can say of it."""

from __future__ import annotations

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
SHADES = {4: "#e8963a", 16: "#d1690e", 64: "#7d3802"}
"""Lengths are shades of the color of stale data."""
CHANCE: dict[str, Any] = {"color": _style.COLORS["muted"], "marker": "D", "mfc": "white"}
SMALL: dict[str, Any] = {"fontsize": 6.5}
LEAST = 0.01
"""Variance of the log ratio below which every sample counts."""


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
    ax.axhline(1.0 / batch, color=_style.COLORS["muted"], linewidth=0.7)
    ax.text(0.02, 1.04 / batch, f"floor: one sample of {batch} counts", transform=ax.get_yaxis_transform(), va="bottom",
            color=_style.COLORS["muted"], **SMALL)  # fmt: skip
    ax.set_yscale("log")
    ax.set(
        ylim=(0.8 / batch, 1.35),
        ylabel="ESS/N: share of samples\nthat still count",
        yticks=[0.02, 0.05, 0.1, 0.2, 0.5, 1],
    )
    ax.set_yticklabels(["2 %", "5 %", "10 %", "20 %", "50 %", "100 %"])
    ax.yaxis.set_minor_formatter(NullFormatter())


def of(rows: Any, part: str, quantity: str, length: int, reward: str = "tokens") -> Any:
    """One curve."""
    own = _vcpo_ess.means(rows, part, quantity, reward)
    return own[own.length == length].sort_values("staleness")


def draw_staleness(ax: Axes, rows: Any) -> Axes:
    """ESS of batches amid training, with what N samples of the very policies show, and infinitely many."""
    share_axis(ax, int(rows.batch.iloc[0]))
    for length, marker in MARKERS.items():
        own = of(rows, "training", "ess", length)
        found = [_vcpo_ess.realized(part) for part in _vcpo_ess.readings(rows, own)]
        ax.plot(own.staleness, [np.mean([each.ess for each in some]) for some in found], **_style.PREDICTED)
        limit = [np.mean([each.limit for each in some]) for some in found]
        ax.plot(own.staleness, limit, color=SHADES[length], linestyle=":", linewidth=1.1)
        points(ax, own.staleness, own, color=SHADES[length], marker=marker)
    for length, place in ((4, (80.0, 0.62)), (16, (106.0, 0.1)), (64, (7.5, 0.36))):
        ax.text(*place, f"{length} tokens", color=SHADES[length], **SMALL)
    told = (
        "dashed: predicted, batch of 64\ndotted: for an infinite batch;\n"
        "a small one overstates ESS\n(64 tokens: run up to staleness 64)"
    )
    ax.text(0.03, 0.14, told, transform=ax.transAxes, **SMALL)
    staleness_axis(ax)
    ax.set(title="Amid learning: fewer of the older samples count")
    return ax


def draw_share(ax: Axes, rows: Any) -> Axes:
    """Largest share of one sample."""
    batch = int(rows.batch.iloc[0])
    ax.axhline(1.0 / batch, color=_style.COLORS["muted"], linewidth=0.7)
    for length, marker in MARKERS.items():
        own = of(rows, "training", "largest_share", length)
        found = [_vcpo_ess.realized(part) for part in _vcpo_ess.readings(rows, own)]
        ax.plot(own.staleness, [np.mean([each.share for each in some]) for some in found], **_style.PREDICTED)
        points(ax, own.staleness, own, color=SHADES[length], marker=marker)
    staleness_axis(ax)
    for length, place in ((4, (88.0, 0.06)), (16, (95.0, 0.3)), (64, (18.0, 0.43))):
        ax.text(*place, f"{length} tokens", color=SHADES[length], **SMALL)
    ax.set(
        ylabel="ratio of the heaviest sample\nover the sum of all", title="Amid learning: one sample outweighs the rest"
    )
    ax.set(ylim=(0.0, 0.85))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    told = (
        f"dashed: predicted for a batch of {batch}\ngray: all weigh the same, {100 / batch:.1f} %\n\n"
        "Not a heavy tail in the strict sense:\n"
        "ratios here are bounded, so their\nvariance is finite, only large."
    )
    ax.text(0.03, 0.98, told, transform=ax.transAxes, va="top", **SMALL)
    return ax


def draw_drift(ax: Axes, rows: Any) -> Axes:
    """Variance per token against staleness, with the law of one update."""
    every = np.geomspace(1.0, 128.0, 60)
    for reward, look in (("tokens", {"color": SHADES[16], "marker": "s"}), ("chance", CHANCE)):
        ax.plot(every, _vcpo_ess.law(rows, reward, every), **_style.PREDICTED)
        some = of(rows, "start", "log_variance", 16, reward)
        points(ax, some.staleness, some, 1.0 / some.length, **look)
    ax.set_yscale("log")
    ax.set(
        ylabel="variance of a token's\nlog ratio (nats$^2$)",
        title="From the start: one update forecasts the drift …",
        ylim=(8e-6, 2.0),
    )
    staleness_axis(ax)
    told = "dashed: forecast from the first update\n(16 tokens; other lengths coincide)"
    ax.text(0.03, 0.97, told, transform=ax.transAxes, va="top", **SMALL)
    told = "random reward: grows\nwith staleness"
    ax.text(0.95, 5e-3, told, color=_style.COLORS["muted"], **SMALL)
    told = "reward = share of right tokens:\ngrows with staleness squared"
    ax.text(8.5, 1.2e-3, told, color=SHADES[16], va="top", **SMALL)
    numbers = _vcpo_ess.numbers(rows)
    reach = f"{numbers['late_least']} to {numbers['late_most']}"
    told = f"Amid learning (not shown), variance\nis {reach} times this forecast."
    ax.text(0.34, 0.04, told, transform=ax.transAxes, **SMALL)
    return ax


def draw_law(ax: Axes, rows: Any) -> Axes:
    """ESS of batches of the initial policy against the variance that the first update forecasts."""
    share_axis(ax, int(rows.batch.iloc[0]))
    ess = _vcpo_ess.means(rows, "start", "ess")
    longest = int(ess[ess.length.isin(MARKERS)].length.max())
    oldest = float(ess[ess.length == longest].staleness.max())
    variance = np.geomspace(LEAST, longest * float(_vcpo_ess.law(rows, "tokens", oldest)), 30)
    found = _vcpo_ess.forecast(rows, longest, variance)
    ax.plot(variance, [each.ess for each in found], **_style.PREDICTED)
    ax.plot(variance, [each.limit for each in found], color=_style.INK, linestyle=":", linewidth=1.1)
    for length, marker in MARKERS.items():
        own = of(rows, "start", "ess", length)
        variance = length * _vcpo_ess.law(rows, "tokens", own.staleness.to_numpy(dtype=float))
        shown = variance >= LEAST
        points(ax, variance[shown], own[shown], color=SHADES[length], marker=marker, label=f"{length} tokens")
    ax.legend(loc="upper right", borderaxespad=0.0, handletextpad=0.1, fontsize=6.5, title="reward for\nright tokens")
    ax.set_xscale("log")
    ax.set(
        xlim=(0.8 * LEAST, 40.0),
        xlabel="forecast variance of a sequence's log ratio (nats$^2$)\n= variance of a token's × number of tokens",
        title="From the start: … and with it the ESS of a batch",
    )
    ax.xaxis.set_major_locator(FixedLocator([0.01, 0.1, 1.0, 10.0]))
    ax.set_xticklabels(["0.01", "0.1", "1", "10"])
    told = (
        f"each mark: one staleness\ndashed: forecast, batch of {int(rows.batch.iloc[0])}\n(lengths nearly coincide)\n"
        "dotted: for an infinite batch;\na small one overstates ESS"
    )
    ax.text(0.03, 0.14, told, transform=ax.transAxes, **SMALL)
    return ax


def draw(rows: Any) -> Figure:
    """ESS and the heaviest sample while the policy learns, and what the first update forecasts at the start."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 5.9)
        (one, two), (three, four) = figure.subplots(2, 2)
        draw_staleness(one, rows)
        draw_share(two, rows)
        draw_drift(three, rows)
        draw_law(four, rows)
        _script.caption(figure, *textwrap.wrap(_told(rows), 112))
    return figure


def _told(rows: Any) -> str:
    batch, replicates = int(rows.batch.iloc[0]), int(_vcpo_ess.means(rows, "training", "ess").samples.iloc[0])
    chance = int(_vcpo_ess.means(rows, "start", "ess", "chance").samples.iloc[0])
    return (
        f"A policy learns from batches of N = {batch} sequences that an older version of it wrote. Varied: staleness "
        "(how many updates ago) and length of the sequences. Measured: their importance ratios (probability now over "
        "that when written); ESS, the effective sample size, is (sum of ratios)² / sum of ratios². Means over "
        f"{replicates} runs "
        f"({chance} where rewards are random), 95 % intervals, mostly inside the marks. Dashed: predicted, nothing is "
        "fitted. Top: the batch of update 160, amid learning; the policy's drift is known, ESS predicted. "
        "Bottom: batches written before training, weighed after 1 to 128 updates; the first update "
        "forecasts the drift too."
    )
