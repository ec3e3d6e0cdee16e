"""Ratios on Pendulum: their ESS and tail index against horizon and staleness, with the length law."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script

EXPERIMENTS = ("pendulum_tails",)


def predicted(rows: Any, horizons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ESS by the length law exp(-v T), v per step from the shortest horizon, and where v T <= ln(N) / 4."""
    shortest = rows[rows.horizon == rows.horizon.min()]
    grown = float(shortest.variance.mean()) * horizons
    return np.exp(-grown), grown <= 0.25 * math.log(float(rows.episodes.iloc[0]))


def draw_ess(ax: Axes, rows: Any) -> Axes:
    """ESS over the number of episodes; dashed where the law applies."""
    fine = np.geomspace(rows.horizon.min(), rows.horizon.max(), 200)
    for level, shade in _script.shades(rows.staleness):
        own = rows[rows.staleness == level]
        law, inside = predicted(own, fine)
        ax.plot(fine[inside], law[inside], **{**_style.PREDICTED, "color": shade})
        points(ax, own, "ess", shade, str(level))
    ax.plot([], [], label=r"$e^{-vT}$", **_style.PREDICTED)
    ax.set(xscale="log", ylim=(0, 1.03), xlabel="horizon $T$ (steps)", ylabel="ESS / episodes")
    ax.set_title("Effective sample size of the ratio")
    ax.legend(title="staleness (versions)", loc="lower left", ncols=2)
    return ax


def draw_tail(ax: Axes, rows: Any) -> Axes:
    """Hill's estimate of the tail index; below 2 the variance is infinite."""
    for level, shade in _script.shades(rows.staleness):
        points(ax, rows[rows.staleness == level], "tail_index", shade, str(level))
    ax.axhline(2.0, color=_style.COLORS["muted"], linewidth=0.8)
    ax.text(
        0.99,
        2.08,
        "below: infinite variance",
        ha="right",
        va="bottom",
        fontsize=6.5,
        color=_style.COLORS["muted"],
        transform=ax.get_yaxis_transform(),
    )
    ax.set(xscale="log", yscale="log", xlabel="horizon $T$ (steps)", ylabel="tail index (Hill)")
    ax.set_title("How heavy its tail reads")
    return ax


def points(ax: Axes, own: Any, name: str, shade: Any, label: str) -> None:
    """Means over replicates with 95 percent intervals."""
    horizons = np.sort(own.horizon.unique())
    mean, half = np.array([_script.interval(own[own.horizon == T][name].to_numpy()) for T in horizons]).T
    ax.errorbar(horizons, mean, yerr=half, label=label, **{**_style.MEASURED, "color": shade})


def draw(rows: Any) -> Figure:
    """Both panels."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 2.9)
        left, right = figure.subplots(1, 2)
        draw_ess(left, rows)
        draw_tail(right, rows)
        episodes = int(rows.episodes.iloc[0])
        _script.caption(
            figure,
            "Ratio of the current to the behavior policy over the first $T$ steps of Pendulum episodes. Varied:",
            f"horizon and constant staleness. Measured over {episodes} episodes a batch, 95 % intervals over",
            r"replicates. Dashed: length law, $v$ = variance of $\log w$ per step at $T = 10$, while $4vT \leq \ln N$.",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """ESS at the longest horizon, what the law gives there, and the ends of the tail index."""
    mean = rows.groupby(["staleness", "horizon"]).mean(numeric_only=True)
    levels, horizons = sorted(rows.staleness.unique()), sorted(rows.horizon.unique())
    shown = levels if len(levels) < 5 else [levels[0], *levels[2:]]
    longest = np.array([float(horizons[-1])])
    law = {level: float(predicted(rows[rows.staleness == level], longest)[0][0]) for level in levels[-2:]}
    first, last = mean.loc[(levels[0], horizons[0])], mean.loc[(levels[-1], horizons[-1])]
    return {
        "horizon": f"{horizons[-1]}",
        "shortest": f"{horizons[0]}",
        "staleness": _script.listed(f"{level}" for level in shown),
        "ess": _script.listed(f"{mean.loc[(level, horizons[-1])].ess:.3f}" for level in shown),
        "law": _script.listed(f"{value:.3f} at staleness {level}" for level, value in law.items()),
        "least": f"{levels[0]}",
        "most": f"{levels[-1]}",
        "light": f"{first.tail_index:.0f}",
        "heavy": f"{last.tail_index:.1f}",
    }
