"""Truncated and VCPO training on stale data with graded rewards: curves, and who collapses."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import _vcpo
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_training import SHOWN, at, numbers

__all__ = ["EXPERIMENTS", "draw", "numbers"]

NOISY = {"graded": "fraction of correct tokens plus noise"}
EXPERIMENTS = {
    "vcpo_training": {"part": "end", "problem": "graded", "optimizer": "adam", "factor": 1.0, "means": NOISY}
}
ARMS = {"synchronous": look.SYNCHRONOUS, "truncated": look.TRUNCATED, "vcpo": look.VCPO}
STALENESS = (0, 2, 8, 32, 128)
REWARDS = {"graded": "noisy graded", "noisy": "noisy pass or fail", "exact": "pass or fail"}


def arm_rows(rows: Any, arm: str) -> Any:
    """Rows of an arm on the graded problem; synchronous training is the truncated arm at staleness 0."""
    own = rows[(rows.problem == "graded") & (rows.optimizer == "adam")]
    if arm == "synchronous":
        return own[(own.staleness == 0) & (own.arm == "truncated")]
    return own[(own.staleness > 0) & (own.arm == arm)]


def collapsing(rows: Any) -> Any:
    """The first of the single runs of truncated IS that collapses; empty where none does."""
    single = arm_rows(rows, "truncated")
    single = single[(single.replicate >= 0) & (single.quantity == "return")]
    for _, run in single.groupby("replicate"):
        if _vcpo.outcome(run.sort_values("update").value.to_numpy()[:, None]).collapsed[0]:
            return run
    return single.iloc[:0]


def draw_curves(ax: Axes, rows: Any) -> None:
    """Mean return over updates with its band, and one run that collapses."""
    run = collapsing(rows)
    ax.plot(run["update"], run.value, color=look.TRUNCATED["color"], linewidth=0.6)
    for arm, style in ARMS.items():
        own = arm_rows(rows, arm)
        own = own[(own.quantity == "return") & (own.replicate < 0)].sort_values("update")
        ax.fill_between(
            own["update"], own.low, own.high, color=style["color"], alpha=0.25, linewidth=0, label="95 % intervals"
        )
        ax.plot(own["update"], own.value, markersize=3.5, markevery=max(1, len(own) // 8), **style)
    ax.axhline(1.0, **_style.REFERENCE)
    last = int(rows["update"].max())
    ax.set(xlim=(0, last), ylim=(0, 1.08), xlabel="update", ylabel="expected return (best: 1)")
    for x, y, text, color in (
        (0.13, 0.86, "synchronous", "synchronous"),
        (0.49, 0.8, "VCPO", "vcpo"),
        (0.74, 0.52, "truncated IS", "weights"),
        (0.72, 0.1, "one collapsed run", "weights"),
    ):
        look.say(ax, x * last, y, text, look.COLOR[color])


def draw_collapsed(ax: Axes, ends: Any) -> None:
    """Share of runs that collapse against staleness, after the smaller number of updates."""
    levels, short = list(STALENESS), ends.horizon.min()
    for arm, side in (("truncated", -0.07), ("vcpo", 0.07)):
        own = ends[(ends.arm == arm) & (ends.quantity == "collapsed") & (ends.horizon == short)].sort_values(
            "staleness"
        )
        x = np.array([levels.index(level) for level in own.staleness]) + side
        look.points(ax, x, own, **ARMS[arm], **look.CONNECTED)
    ax.set(xlim=(-0.4, len(levels) - 0.4), xlabel="staleness (versions)")
    look.ticks(ax.xaxis, range(len(levels)), levels)
    look.shares(ax)
    ax.set(ylabel="runs that collapse", title=f"Collapse in {int(short)} updates", ylim=(-0.015, 0.52))
    look.say(ax, 3.2, 0.2, "truncated IS", look.TRUNCATED["color"], ha="right")
    look.say(ax, 3.2, 0.045, "VCPO", look.VCPO["color"])


def draw(rows: Any) -> Figure:
    """Curves at one staleness, then what became of the runs at every staleness."""
    main = rows[rows.part == "end"]
    ends = main[(main.problem == "graded") & (main.optimizer == "adam") & (main.factor == 1.0)]
    fallen = at(main, "graded", "adam", SHOWN, "truncated", "collapsed").value
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        curves, lost = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
        draw_curves(curves, rows[(rows.part == "curve")])
        curves.set_title(f"Return over updates at staleness {SHOWN}")
        draw_collapsed(lost, ends)
        few = (ends[(ends.arm == "vcpo") & (ends.quantity == "collapsed")].value < 0.05).all()
        _script.headline(figure, fallen > 0.05 and few, "Training on stale data with graded rewards")
    return figure


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether most runs of truncated IS collapse on old data, and hardly any of VCPO's, by reward and rate."""
    own = rows[(rows.part == "end") & (rows.quantity == "collapsed") & (rows.staleness > 0)]
    place = ["problem", "optimizer", "staleness", "factor"]
    last = own[own.horizon == own.groupby(place).horizon.transform("max")].sort_values(place)
    most, few = [], []
    for row in last.itertuples():
        name = REWARDS[row.problem] + ", SGD" * (row.optimizer == "sgd")
        where = (f"{name}, staleness {row.staleness}", f"{row.factor:g}×")
        if row.arm == "vcpo":
            few.append(Setting(where, decided(row.high < 0.1, row.low >= 0.1)))
        elif row.staleness >= SHOWN:
            most.append(Setting(where, decided(row.low > 0.5, row.high < 0.5)))
    return {"truncated": most, "stable": few}
