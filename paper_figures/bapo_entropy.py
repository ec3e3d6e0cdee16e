"""Entropy at equal return on fresh and stale data, each arm at its best rate and the clip at that of fresh data too."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures._script import finding, pick

EXPERIMENTS = {"bapo": {"part": "grid", "law": ("constant 0", "constant 32"), "tuned": True}}
SHOWN = ("fresh", "clip", "bapo", "none")
SAME = "clip at best rate\nof fresh data"
LINES = {line: arms.NAMES.get(line, SAME) for line in ("fresh", "same", "clip", "bapo", "none")}


def place(rows: Any, task: str, arm: str) -> dict[str, str]:
    """Where an arm stands at the largest staleness; `fresh` is any of them on fresh data."""
    laws = arms.laws(rows)
    law, arm = (laws[0], "clip") if arm == "fresh" else (laws[-1], arm)
    return {"task": task, "law": law, "arm": arm}


def entropy(rows: Any, task: str, line: str) -> Any:
    """The row of a line: an arm at its best rate, or the clip at the best rate of fresh data; None where unmeasured."""
    if line != "same":
        return arms.at_best(rows, "half", **place(rows, task, line))
    rate = arms.best(rows, **place(rows, task, "fresh"))
    own = pick(rows, part="grid", quantity="half", rate=rate, **place(rows, task, "clip"))
    return own.iloc[0] if len(own) else None


def panel(ax: Axes, rows: Any, task: str) -> None:
    """A mark a line, with the value of fresh data as reference."""
    for y, line in enumerate(LINES):
        row = entropy(rows, task, line)
        if row is not None:
            style = {**arms.ARMS["clip"], **look.HOLLOW} if line == "same" else arms.ARMS[line]
            look.points(ax, [y], row.to_frame().T.infer_objects(), sideways=True, **style)
    ax.axvline(entropy(rows, task, "fresh").value, **_style.REFERENCE)
    ax.set(ylim=(len(LINES) - 0.5, -0.5), title=arms.TASKS[task])
    ax.set_xlim(0.0, 1.1 * max(entropy(rows, task, arm).high for arm in SHOWN))
    look.ticks(ax.yaxis, range(len(LINES)), list(LINES.values()))


def headline(rows: Any) -> str:
    """What clips do to entropy at both kinds of rates, if they do it on all tasks."""
    found = [{line: entropy(rows, task, line) for line in ("fresh", "clip", "same")} for task in arms.TASKS]
    less = all(own["clip"].value < own["fresh"].value for own in found)
    more = all(own["same"] is not None and own["same"].value > own["fresh"].value for own in found)
    words = "At its own best learning rate, clipping leaves less entropy than fresh data"
    both = f"{words}; at that of fresh data, more"
    return finding(less, both if more else words, "Entropy on old data, at best rates and at fresh data's")


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.2)
        axes = figure.subplots(1, len(arms.TASKS), sharey=True)
        for ax, task in zip(axes, arms.TASKS, strict=True):
            panel(ax, rows, task)
        age = arms.age(arms.laws(rows)[-1])
        place = f"data {age} versions old (first row: fresh)"
        axes[1].set_xlabel(f"entropy (nats) when half of the possible gain is reached; {place}")
        figure.suptitle(headline(rows), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropies on the stalest data, at best rates and at the best one of fresh data; collapses at any rate."""
    found = {"staleness": f"{arms.age(arms.laws(rows)[-1])}"}
    for task in arms.TASKS:
        for arm in SHOWN:
            found[f"{task}_{arm}"] = look.value(arms.at_best(rows, "half", **place(rows, task, arm)))
        same = entropy(rows, task, "same")
        found[f"{task}_same"] = "none" if same is None else look.value(same)
    pairs = [[arms.at_best(rows, "half", **place(rows, task, arm)) for arm in ("bapo", "clip")] for task in arms.TASKS]
    found |= {"kept": f"{sum(bapo.low > clip.high for bapo, clip in pairs)}", "tasks": f"{len(pairs)}"}
    for arm in ("fresh", "clip", "bapo"):
        lost = [arms.curve(rows, "collapsed", **place(rows, task, arm)).value.max() for task in arms.TASKS]
        found[f"{arm}_collapsed"] = f"{100 * max(lost):.0f} %"
    return found
