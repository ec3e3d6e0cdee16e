"""Hours to a return against the learning rate, on a machine with long tails and on one with a slow trainer."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from asyncsim.plotting import _style
from experiments import system_frontier
from paper_figures import _script
from paper_figures._vcpo import CONNECTED

EXPERIMENTS = {"system_frontier": {"part": "learning", "task": "bandit", "unit": "versions at most"}}
ETAS = (0, 1, 4, 16)
"""Staleness limits of areal; 0 is the synchronous system."""
SHADES = {eta: _style.staleness(place / 3) if eta else _style.COLORS["synchronous"] for place, eta in enumerate(ETAS)}
LOOKS: dict[int, dict[str, Any]] = {
    eta: {"color": SHADES[eta], "marker": mark, **CONNECTED} for eta, mark in zip(ETAS, "*os^", strict=True)
}
TITLES = {"long tails": "Long-tailed response lengths", "slow trainer": "Slow trainer, nearly equal lengths"}
"""What a panel calls a machine; asynchronous training is to win on the first, synchronous on the second."""


def hours(rows: Any, regime: str, eta: int) -> np.ndarray:
    """Learning rate, hours to the target and half interval, where every realization gets there."""
    own = rows[(rows.part == "learning") & (rows.regime == regime) & (rows.quantity == "hours_to_target")]
    found = [
        (step, *_script.interval(part.value))
        for step, part in own[own.knob == eta].groupby("step")
        if part.value.notna().all()
    ]
    return np.array(found).reshape(-1, 3)


def wins(rows: Any, regime: str) -> bool:
    """Whether what is to win on a machine is fastest at the best learning rates, with intervals apart."""
    cells = {eta: hours(rows, regime, eta) for eta in ETAS}
    best = {eta: cell[np.argmin(cell[:, 1])] for eta, cell in cells.items() if len(cell)}
    fresh, stale = best.get(0), [cell for eta, cell in best.items() if eta]
    if fresh is None or not stale:
        return False
    quick = min(stale, key=lambda cell: float(cell[1]))
    first, second = (quick, fresh) if regime == "long tails" else (fresh, quick)
    return bool(first[1] + first[2] < second[1] - second[2])


def draw_hours(ax: Axes, rows: Any, regime: str) -> Axes:
    """Hours to the target against the learning rate."""
    for place, eta in enumerate(ETAS):
        x, mean, half = hours(rows, regime, eta).T
        # Points of one learning rate stand side by side.
        x = x * 1.06 ** (place - 1.5)
        ax.errorbar(x, mean, yerr=half, **{**_style.MEASURED, **LOOKS[eta]})
        if len(x) and not eta:
            ax.axhline(mean.min(), **_style.REFERENCE)
            ax.text(
                0.21, 0.93 * mean.min(), "synchronous, best rate", color=_style.COLORS["muted"], fontsize=7, va="top"
            )
    ax.set(xscale="log", yscale="log", xlabel="learning rate", title=TITLES[regime])
    ax.set(xticks=system_frontier.STEPS, xticklabels=[f"{step:g}" for step in system_frontier.STEPS])
    ax.set(ylim=(0.07, 8), yticks=[0.1, 1], yticklabels=["0.1", "1"], xlim=(0.2, 20))
    ax.xaxis.set_minor_locator(NullLocator())
    return ax


def draw(rows: Any) -> Figure:
    """A panel for each machine."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, regime in zip(axes, TITLES, strict=True):
            draw_hours(ax, rows, regime)
        axes[0].set_ylabel("simulated hours\nto 95 % of the best return")
        words = "At tuned rates, asynchrony saves time with long-tailed lengths and costs time with a slow trainer"
        holds = all(wins(rows, regime) for regime in TITLES)
        title = _script.finding(holds, words, "Hours to a return against the learning rate")
        names = {eta: f"staleness limit {eta}" if eta else "synchronous" for eta in ETAS}
        marks = [Line2D([], [], label=name, markersize=4, **LOOKS[eta]) for eta, name in names.items()]
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=marks, ncols=len(marks), title=title, **more)
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
