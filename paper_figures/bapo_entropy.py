"""Entropy at equal return against the learning rate, on fresh and stale data; each arm's best rate is ringed."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures._script import pick

EXPERIMENTS = ("bapo",)
SHOWN = ("fresh", "clip", "bapo", "none")
RING: dict[str, Any] = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "linestyle": "none"}


def place(rows: Any, task: str, arm: str) -> dict[str, str]:
    """Where an arm stands at the largest staleness; `fresh` is any of them on fresh data."""
    laws = arms.laws(rows)
    law, arm = (laws[0], "clip") if arm == "fresh" else (laws[-1], arm)
    return {"task": task, "law": law, "arm": arm}


def over_rates(ax: Axes, rows: Any, task: str) -> None:
    """A line for each arm, its best rate ringed."""
    for arm in SHOWN:
        own = place(rows, task, arm)
        line, best = arms.curve(rows, "half", **own), arms.at_best(rows, "half", **own)
        look.points(ax, line.rate, line, **{**look.CONNECTED, "markersize": 3.5, **arms.ARMS[arm]})
        ax.plot([best.rate], [best.value], color=arms.ARMS[arm]["color"], **RING)
    ax.set(xscale="log", xlabel="learning rate", ylim=(0.0, 1.05 * ax.get_ylim()[1]), title=arms.TASKS[task])
    ax.xaxis.set_major_locator(LogLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, len(arms.TASKS))
        for ax, task in zip(axes, arms.TASKS, strict=True):
            over_rates(ax, rows, task)
        axes[0].set_ylabel("entropy at half of the gain (nats)")
        drawn = [axes[0].plot([], [], linestyle="none", markersize=4.0, **arms.ARMS[arm])[0] for arm in SHOWN]
        drawn.append(axes[0].plot([], [], color=look.COLOR["muted"], **{**RING, "markersize": 7})[0])
        labels = [*(arms.NAMES[arm] for arm in SHOWN), "best rate"]
        age = arms.age(arms.laws(rows)[-1])
        title = f"With a clip, data {age} updates old cost entropy only through bolder best rates"
        figure.legend(drawn, labels, loc="outside upper left", ncols=len(labels), title=title, alignment="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropies on the stalest data, at best rates and at the best one of fresh data; collapses at any rate."""
    found = {"staleness": f"{arms.age(arms.laws(rows)[-1])}"}
    for task in arms.TASKS:
        for arm in SHOWN:
            found[f"{task}_{arm}"] = look.value(arms.at_best(rows, "half", **place(rows, task, arm)))
        rate = arms.best(rows, **place(rows, task, "fresh"))
        same = pick(rows, part="grid", quantity="half", rate=rate, **place(rows, task, "clip"))
        found[f"{task}_same"] = look.value(same.iloc[0]) if len(same) else "none"
    pairs = [[arms.at_best(rows, "half", **place(rows, task, arm)) for arm in ("bapo", "clip")] for task in arms.TASKS]
    found |= {"kept": f"{sum(bapo.low > clip.high for bapo, clip in pairs)}", "tasks": f"{len(pairs)}"}
    for arm in ("fresh", "clip", "bapo"):
        lost = [arms.curve(rows, "collapsed", **place(rows, task, arm)).value.max() for task in arms.TASKS]
        found[f"{arm}_collapsed"] = f"{100 * max(lost):.0f} %"
    return found
