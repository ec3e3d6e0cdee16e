"""Entropy at equal return on stale data less that on fresh data, each arm at its best rate."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures._script import finding, pick

EXPERIMENTS = {"bapo": {"part": "grid", "law": ("constant 0", "constant 32"), "tuned": True}}
SHOWN = ("fresh", "clip", "bapo", "none")
DRAWN = {"clip": "PPO's clip", "bapo": "BAPO", "none": "ratio without a clip"}


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


def beside_fresh(rows: Any, task: str, arm: str) -> Any:
    """Entropy of an arm less that on fresh data, as if both were independent."""
    own, fresh = entropy(rows, task, arm), entropy(rows, task, "fresh")
    value, reach = own.value - fresh.value, math.hypot(own.high - own.low, fresh.high - fresh.low) / 2
    return pd.DataFrame([{"value": value, "low": value - reach, "high": value + reach}])


def draw(rows: Any) -> Figure:
    """A line an arm, a mark a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        found = {(task, arm): beside_fresh(rows, task, arm) for task in arms.TASKS for arm in DRAWN}
        for y, arm in enumerate(DRAWN):
            for side, (task, style) in zip((-0.25, 0.0, 0.25), arms.LOOKS.items(), strict=True):
                look.points(ax, [y + side], found[task, arm], sideways=True, **style)
        ax.axvline(0.0, **_style.REFERENCE)
        ax.set(ylim=(len(DRAWN) - 0.5, -0.5))
        ax.set_xlabel("entropy at half of the possible gain − that on fresh data (nats)")
        look.ticks(ax.yaxis, range(len(DRAWN)), DRAWN.values())
        less = all(found[task, arm].high[0] < 0.0 for task in arms.TASKS for arm in ("clip", "bapo"))
        words = "At tuned learning rates, the clip and BAPO on old data have less entropy than training on fresh data"
        arms.key(figure, finding(less, words, "Entropy on old data beside fresh data's, at tuned learning rates"))
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
