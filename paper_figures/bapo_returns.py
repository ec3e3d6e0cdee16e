"""Who dominates the gradient over a run; and returns of every arm less BAPO's, at best rates."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import bapo
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures._script import finding, pick

EXPERIMENTS = ("bapo",)
ORDER = ("released", "intent", "start", "clip", "higher", "none", "rloo")
DRAWN = ("clip", "bapo", "released", "none")
MARKS = {"bandit": "o", "graded": "s", "bits": "^"}
SHARED = "graded"
"""The task whose runs are drawn over updates."""


def laws(rows: Any) -> dict[str, str]:
    """Laws of the comparison with what a panel calls them."""
    stale = arms.laws(rows)[-1]
    return {stale: f"{arms.age(stale)} updates old", "replay": "replay", "partial": "partial rollouts"}


def balance(ax: Axes, rows: Any) -> None:
    """Share of the gradient that has positive advantages, over updates, at best rates."""
    for arm in DRAWN:
        own = pick(rows, part="course", task=SHARED, law=arms.laws(rows)[-1], arm=arm, quantity="positive")
        own = own.sort_values("number")
        ax.plot(own.number, own.value, color=arms.ARMS[arm]["color"], linewidth=1.0)
    ax.axhline(0.5, **_style.REFERENCE)
    ax.set(ylim=(0.0, 1.0), xlabel="update", ylabel="positive share of the gradient")
    ax.set_title(f"{arms.TASKS[SHARED]}, {laws(rows)[arms.laws(rows)[-1]]}")
    for y, arm in zip((0.95, 0.87, 0.15, 0.07), ("none", "released", "bapo", "clip"), strict=True):
        ax.text(0.6, y, arms.NAMES[arm], color=arms.ARMS[arm]["color"], transform=ax.transAxes, **look.LETTERS)


def compared(ax: Axes, rows: Any, law: str) -> None:
    """Returns less BAPO's, a line an arm, a mark a task."""
    for y, arm in enumerate(ORDER):
        for side, (task, marker) in zip((-0.25, 0.0, 0.25), MARKS.items(), strict=True):
            row = arms.difference(rows, task=task, law=law, arm=arm)
            if row is not None:
                style = {"color": arms.ARMS[arm]["color"], "marker": marker, "markersize": 3.5}
                look.points(ax, [y + side], row.to_frame().T.infer_objects(), sideways=True, **style)
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(len(ORDER) - 0.5, -0.5), xlabel="mean return − BAPO's")
    look.ticks(ax.yaxis, range(len(ORDER)), [arms.NAMES[arm] for arm in ORDER])


def draw(rows: Any) -> Figure:
    """The balance of a run, then a panel for each law."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.2)
        axes = figure.subplots(2, 2).ravel()
        balance(axes[0], rows)
        for ax, (law, name) in zip(axes[1:], laws(rows).items(), strict=True):
            compared(ax, rows, law)
            ax.set_title(name)
        style = {"linestyle": "none", "markersize": 3.5, "color": look.INK}
        drawn = [axes[1].plot([], [], marker=marker, **style)[0] for marker in MARKS.values()]
        labels = [arms.TASKS[task] for task in MARKS]
        found = {
            arm: [
                row
                for law in laws(rows)
                for task in MARKS
                if (row := arms.difference(rows, task=task, law=law, arm=arm)) is not None
            ]
            for arm in ORDER
        }
        near = np.mean([abs(row.value) <= bapo.SMALLEST for row in found["start"]]) > 0.5
        free = [row.value > 0.0 for arm in ("none", "rloo") for row in found[arm]]
        title = "BAPO ≈ its first bounds held fixed; arms without a clip return more"
        title = finding(near and np.mean(free) > 0.8, title, "Share of positive advantages; returns beside BAPO's")
        figure.legend(drawn, labels, loc="outside upper left", ncols=3, title=title, alignment="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words against BAPO by arm, positive shares over tasks, returns at the best rate of fresh data."""
    names, stale = laws(rows), arms.laws(rows)[-1]
    found = {"staleness": f"{arms.age(stale)}", "smallest": f"{bapo.SMALLEST:g}"}
    places = [(task, law) for law in names for task in MARKS]
    for arm in ORDER:
        own = [row for task, law in places if (row := arms.difference(rows, task=task, law=law, arm=arm)) is not None]
        found |= {f"{arm}_{word}": f"{sum(row.word == word for row in own)}" for word in ("better", "equal", "worse")}
        found["places"] = f"{len(own)}"
    rate = arms.best(rows, task=SHARED, law=arms.laws(rows)[0], arm="clip")
    for arm in DRAWN:
        shares = [arms.at_best(rows, "positive", task=task, law=stale, arm=arm).value for task in arms.TASKS]
        found[f"positive_{arm}"] = f"{100 * sum(shares) / len(shares):.0f} %"
    for arm in ("clip", "bapo", "none"):
        own = pick(rows, part="grid", quantity="return", task=SHARED, law=stale, arm=arm, rate=rate)
        found[f"same_{arm}"] = f"{own.value.iloc[0]:.2f}"
    return found | {"rate": f"{rate:g}"}
