"""Hours to a return against the learning rate, on a machine with long tails and on one with a slow trainer."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from asyncsim.plotting import _style
from experiments import system_frontier
from paper_figures import _script

EXPERIMENTS = {"system_frontier": {"part": "learning", "task": "bandit", "unit": "versions at most"}}
ETAS = (0, 1, 4, 16)
"""Staleness limits of areal; 0 is the synchronous system."""
TITLES = {
    "long tails": ("Long-tailed response lengths", ":\nasynchronous is fastest, tuned"),
    "slow trainer": ("Slow trainer, even lengths", ":\nsynchronous is fastest, tuned"),
}
"""A machine, and what its hours to the target show, if they do."""


def hours(rows: Any, regime: str, eta: int) -> np.ndarray:
    """Learning rate, hours to the target and half interval, where every realization gets there."""
    own = rows[(rows.part == "learning") & (rows.regime == regime) & (rows.quantity == "hours_to_target")]
    found = [
        (step, *_script.interval(part.value))
        for step, part in own[own.knob == eta].groupby("step")
        if part.value.notna().all()
    ]
    return np.array(found).reshape(-1, 3)


def title(rows: Any, regime: str) -> str:
    """The machine, with what is fastest on it at the best learning rates where intervals are apart."""
    cells = {eta: hours(rows, regime, eta) for eta in ETAS}
    best = {eta: cell[np.argmin(cell[:, 1])] for eta, cell in cells.items() if len(cell)}
    fresh, stale = best.get(0), [cell for eta, cell in best.items() if eta]
    if fresh is None or not stale:
        return TITLES[regime][0]
    quick = min(stale, key=lambda cell: float(cell[1]))
    first, second = (quick, fresh) if regime == "long tails" else (fresh, quick)
    return _script.finding(first[1] + first[2] < second[1] - second[2], "".join(TITLES[regime]), TITLES[regime][0])


def draw_hours(ax: Axes, rows: Any, regime: str) -> Axes:
    """Hours to the target against the learning rate."""
    for place, eta in enumerate(ETAS):
        shade = _style.staleness(place / (len(ETAS) - 1)) if eta else _style.COLORS["synchronous"]
        x, mean, half = hours(rows, regime, eta).T
        # Points of one learning rate stand side by side.
        x = x * 1.06 ** (place - 1.5)
        ax.plot(x, mean, color=shade, linewidth=0.9)
        look = {**_style.MEASURED, "marker": "o" if eta else "*", "color": shade}
        ax.errorbar(x, mean, yerr=half, **look)
        if len(x) and (eta != ETAS[-1] or regime == "slow trainer"):
            twins = regime == "long tails" and eta == ETAS[2]
            name = f"limit {eta} and {ETAS[3]}" if twins else f"staleness limit {eta}" if eta else "synchronous"
            at, place = (int(mean.argmin()), (-4, -9)) if twins else (-1, (5, 0))
            more: dict[str, Any] = {
                "textcoords": "offset points",
                "color": shade,
                "va": "center",
                "ha": "right" if twins else "left",
                "fontsize": 7.5,
            }
            ax.annotate(name, (x[at], mean[at]), place, **more)
        if len(x) and not eta:
            ax.axhline(mean.min(), **_style.REFERENCE)
            ax.text(0.21, 0.93 * mean.min(), "best synchronous", color=_style.COLORS["muted"], fontsize=7, va="top")
    ax.set(xscale="log", yscale="log", xlabel="learning rate", title=title(rows, regime))
    ax.set(xticks=system_frontier.STEPS, xticklabels=[f"{step:g}" for step in system_frontier.STEPS])
    ax.set(ylim=(0.07, 8), yticks=[0.1, 1], yticklabels=["0.1", "1"], xlim=(0.2, 110))
    ax.xaxis.set_minor_locator(NullLocator())
    return ax


def draw(rows: Any) -> Figure:
    """A panel for each machine."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, regime in zip(axes, TITLES, strict=True):
            draw_hours(ax, rows, regime)
        axes[0].set_ylabel("simulated hours to 95 % of the best return")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Least hours to the target over the learning rates at which every realization gets there."""
    found = {}
    for regime, name in (("long tails", "long"), ("slow trainer", "slow")):
        for eta in (0, 1, 4):
            cell = hours(rows, regime, eta)
            best = cell[np.argmin(cell[:, 1])] if len(cell) else np.full(3, np.nan)
            found[f"{name}_{eta}"] = f"{best[1]:.3f} ± {best[2]:.3f} h"
            found[f"{name}_{eta}_rate"] = f"{best[0]:g}"
    return found
