"""Live runs of three systems beside what the event model predicts from their latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import live_staleness
from paper_figures import _script

EXPERIMENTS = ("live_staleness",)
MODES = {
    "waits": ("measured", "o", 0.24, "● bandit with waits"),
    "none": ("contrast", "D", 0.08, "◆ bandit"),
    "cartpole": ("contrast", "^", -0.08, "▲ CartPole"),
    "characters": ("contrast", "s", -0.24, "■ language model"),
}
"""Color, marker, shift and name of each mode."""
PANELS = {
    "staleness": "mean staleness",
    "total variation": "total variation",
    "throughput": "throughput",
    "return": "return",
}
REACH = 3.0
"""Half widths of a band that the panels show; points beyond stand at their edge."""


def places(rows: Any) -> Any:
    """Where each measurement lies in its band: -1 and 1 are its ends, 0 its middle, also of a band of one number.

    Total variation has one end, 1; there is none at 0.
    """
    if (rows.quantity == "total variation").all():
        return (rows.measured / np.maximum(rows.high, 1e-12)).to_numpy()
    center, half = (rows.high + rows.low) / 2.0, (rows.high - rows.low) / 2.0
    off = (rows.measured - center).to_numpy()
    wide = half.to_numpy() > 1e-12
    return np.where(wide, off / np.where(wide, half, 1.0), np.sign(np.round(off, 9)) * 2.0 * REACH)


def draw_panel(ax: Axes, rows: Any, quantity: str) -> None:
    """Runs of every system and mode on one band."""
    ax.axvspan(0.0 if quantity == "total variation" else -1.0, 1.0, color=_style.COLORS["effect"], zorder=0)
    ax.axvline(0.0, **_style.PREDICTED)
    for line, system in enumerate(live_staleness.NAMES):
        for mode, (color, marker, shift, _) in MODES.items():
            own = _script.pick(rows, quantity=quantity, system=system, mode=mode)
            spread = line + shift + np.linspace(-0.06, 0.06, len(own))
            ax.plot(np.clip(places(own), -REACH, REACH), spread, color=_style.COLORS[color], marker=marker, **_LOOK)
    ax.set(xlim=(-1.1 * REACH, 1.1 * REACH), ylim=(-0.5, len(live_staleness.NAMES) - 0.5), xticks=[-1, 0, 1])
    ax.set_title(PANELS[quantity])


_LOOK: dict[str, Any] = {"linestyle": "none", "markersize": 2.6, "alpha": 0.8}


def draw(rows: Any) -> Figure:
    """A panel for each quantity."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.5)
        axes = figure.subplots(1, len(PANELS), sharey=True)
        for ax, quantity in zip(axes, PANELS, strict=True):
            draw_panel(ax, rows, quantity)
        axes[0].set_yticks(range(len(live_staleness.NAMES)), live_staleness.NAMES)
        axes[0].set_ylabel("shaded: band of level 0.99")
        for ax, (color, _, _, label) in zip(axes, MODES.values(), strict=True):
            ax.set_xlabel(label, color=_style.COLORS[color])
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Values inside their bands by mode, runs, and load."""
    judged = rows[rows.quantity.isin(list(PANELS))]
    with_waits = judged["mode"] == "waits"
    inside = {"waits": judged[with_waits].inside, "none": judged[~with_waits].inside}
    runs = judged.groupby(["system", "mode"]).run.nunique().sum()
    load = f"{rows.load.min():.0f} to {rows.load.max():.0f}"
    return {mode: f"{own.sum():.0f} of {len(own)}" for mode, own in inside.items()} | {"runs": f"{runs}", "load": load}
