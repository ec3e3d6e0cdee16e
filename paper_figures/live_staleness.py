"""Live runs of three systems beside what the event model predicts from their latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._claim import Setting
from paper_figures._vcpo import below, ticks

ASKED = {"task": "token bandit, CartPole, sums", "staleness": "measured", "seeds": "one run per mark", "pooled": True}
EXPERIMENTS = {"live_staleness": ASKED}
MODES = ("waits", "none")
"""Runs whose generation takes longer than messages, and all others."""
LOOKS = {
    "token bandit, 10 ms generation": (("waits",), "measured"),
    "token bandit, fast generation": (("none",), "contrast"),
    "CartPole, sums": (("cartpole", "characters"), "tuned"),
}
"""Modes of the rows, and the color, of the runs that a mark names."""
QUANTITIES = ("staleness", "total variation", "throughput", "return")
"""What has a band; numbers count all of it."""
OUTSIDE = "outside its 99 % band (line)"
ENOUGH = 0.95
"""Share of values inside of their bands of 99 percent that is nearly all of them."""


def judged(rows: Any, mode: str) -> Any:
    """Rows that have a band, of runs with waits or of all others."""
    return rows[rows.quantity.isin(list(QUANTITIES)) & ((rows["mode"] == "waits") == (mode == "waits"))]


def draw_staleness(ax: Axes, rows: Any) -> int:
    """Measured minus predicted staleness of each run with its band; how many are outside."""
    own = _script.pick(rows, quantity="staleness").sort_values("mode", kind="stable")
    own = own.assign(level=own.measured.round()).sort_values("level", kind="stable")
    own = own.assign(place=range(len(own)))
    for modes, shade in LOOKS.values():
        part, color = own[own["mode"].isin(modes)], _style.COLORS[shade]
        ax.vlines(part.place, part.low - part.predicted, part.high - part.predicted, color=color, linewidth=0.7)
        ax.plot(part.place, part.measured - part.predicted, "o", color=color, markersize=3.0)
    out = own[~own.measured.between(own.low, own.high)]
    ax.plot(out.place, out.measured - out.predicted, "o", mfc="none", color=_style.INK, markersize=8.0)
    ax.axhline(0.0, label="measured = predicted", **_style.PREDICTED)
    ticks(ax.xaxis, own.groupby("level").place.mean(), [f"{level:g}" for level in sorted(own.level.unique())])
    ax.set(xlabel="mean staleness (versions), one mark per run", ylabel="measured minus predicted\nmean staleness")
    ax.set_title(f"Mean staleness: {len(own) - len(out)} of {len(own)} runs in the 99 % band")
    return len(out)


def draw_throughput(ax: Axes, rows: Any) -> int:
    """Measured over predicted with its band, a mark per run, a ring where it is outside; how many are outside."""
    inside, total = 0, 0
    for name, (modes, shade) in LOOKS.items():
        own = _script.pick(rows[rows["mode"].isin(modes)], quantity="throughput")
        color = _style.COLORS[shade]
        ax.hlines(own.measured, own.low, own.high, color=color, linewidth=0.7)
        ax.plot(own.predicted, own.measured, "o", color=color, markersize=3.5, label=name)
        out = own[~own.measured.between(own.low, own.high)]
        ax.plot(out.predicted, out.measured, "o", mfc="none", color=_style.INK, markersize=8.0, label=OUTSIDE)
        inside, total = inside + len(own) - len(out), total + len(own)
    measured = rows.measured[rows.quantity == "throughput"]
    ends = np.array([0.8 * measured.min(), 1.25 * measured.max()])
    ax.plot(ends, ends, label="measured = predicted", **_style.PREDICTED)
    ax.set(xlabel="predicted updates per second", ylabel="measured updates per second")
    ax.set_title(f"Updates per second: {inside} of {total} runs in the 99 % band")
    return total - inside


def draw(rows: Any) -> Figure:
    """Staleness, and throughput."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        axes = figure.subplots(1, 2)
        axes[1].set(xscale="log", yscale="log")
        missed = [draw_staleness(axes[0], rows), draw_throughput(axes[1], rows)]
        for axis in (axes[1].xaxis, axes[1].yaxis):
            ticks(axis, (10, 30, 100, 300))
        few = max(missed) < (1.0 - ENOUGH) * (rows.quantity == "staleness").sum()
        _script.headline(figure, few, "Live runs and what the event model predicts")
        named = dict(zip(*axes[1].get_legend_handles_labels()[::-1], strict=True))
        below(figure, [named[name] for name in (*LOOKS, OUTSIDE) if name in named])
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Values inside their bands by mode, runs, and load."""
    inside = {mode: judged(rows, mode).inside for mode in MODES}
    runs = rows[rows.quantity.isin(list(QUANTITIES))].groupby(["system", "mode"]).run.nunique().sum()

    missed = judged(rows, "none")
    missed = missed[~missed.inside.astype(bool)]
    shape = {"shape": str(int((missed.quantity == "total variation").sum())), "runs": f"{runs}"}
    return shape | {mode: f"{own.sum():.0f} of {len(own)}" for mode, own in inside.items()}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether nearly all values of a quantity lie in their bands, by how long generation takes."""
    found = []
    for mode, name in (("waits", "slow generation"), ("none", "fast generation")):
        for quantity in QUANTITIES:
            inside = _script.pick(judged(rows, mode), quantity=quantity).inside.mean()
            words = "distribution of staleness" if quantity == "total variation" else quantity
            found.append(Setting((name, words), bool(inside >= ENOUGH)))
    return {"inside": found}
