"""Entropy at equal return on stale data less that on fresh data, each arm at its best rate."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._script import pick

EXPERIMENTS = {
    "bapo": {"part": "grid", "law": ("constant 0", "constant 32"), "tuned": True, "replicates": 192},
    "paired": {"of": "bapo"},
}
SHOWN = ("fresh", "clip", "bapo", "none")
DRAWN = {"clip": "PPO's clip", "bapo": "BAPO", "none": "no clip"}


def place(rows: Any, task: str, arm: str) -> dict[str, str]:
    """Where an arm stands at the largest staleness; `fresh` is any of them on fresh data."""
    laws = arms.laws(rows)
    law, arm = (laws[0], "clip") if arm == "fresh" else (laws[-1], arm)
    return {"task": task, "law": law, "arm": arm}


def same_rate(rows: Any, task: str) -> Any:
    """The row of the clip at the best rate of fresh data; None where unmeasured."""
    rate = arms.best(rows, **place(rows, task, "fresh"))
    own = pick(rows, part="grid", quantity="half", rate=rate, **place(rows, task, "clip"))
    return own.iloc[0] if len(own) else None


def paired_rows(paired: Any, task: str, arm: str, base: str) -> Any:
    """The row of an arm less another, replicate by replicate; without a `base`, that of the arm."""
    return pick(paired, of="bapo", task=task, arm=arm, base=base)


def draw(rows: Any, paired: Any) -> Figure:
    """A line a task, a mark an arm."""
    del rows
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.4)
        ax = figure.subplots()
        for y, task in enumerate(arms.TASKS):
            for side, arm in zip((-0.2, 0.0, 0.2), DRAWN, strict=True):
                look.points(ax, [y + side], paired_rows(paired, task, arm, "fresh"), sideways=True, **arms.ARMS[arm])
        ax.axvline(0.0, **_style.REFERENCE)
        ax.set(ylim=(len(arms.TASKS) - 0.5, -0.5))
        ax.set_xlabel("entropy at half of the possible gain, minus that of the same method on fresh data (nats)")
        look.ticks(ax.yaxis, range(len(arms.TASKS)), arms.TASKS.values())
        look.side(ax, "left of 0: less entropy")
        look.below(figure, [Line2D([], [], linestyle="none", label=DRAWN[arm], **arms.ARMS[arm]) for arm in DRAWN])
        highs = [
            paired_rows(paired, task, arm, "fresh").high.iloc[0] for task in arms.TASKS for arm in ("clip", "bapo")
        ]
        _script.headline(figure, max(highs) < 0.0, "Entropy on stale data minus that on fresh data, tuned rates")
    return figure


def numbers(rows: Any, paired: Any) -> dict[str, str]:
    """Entropies on the stalest data, at best rates and at the best one of fresh data."""
    found = {"staleness": f"{arms.age(arms.laws(rows)[-1])}", "tasks": f"{len(arms.TASKS)}"}
    for task in arms.TASKS:
        for arm in SHOWN:
            found[f"{task}_{arm}"] = look.value(paired_rows(paired, task, arm, "").iloc[0])
        same = same_rate(rows, task)
        found[f"{task}_same"] = "none" if same is None else look.value(same)
    found["kept"] = f"{sum(paired_rows(paired, task, 'bapo', 'clip').low.iloc[0] > 0.0 for task in arms.TASKS)}"
    return found


def held(rows: Any, paired: Any) -> dict[str, list[Setting]]:
    """Whether the clip leaves less entropy than fresh data at equal return."""
    less = []
    for task, name in arms.TASKS.items():
        same, fresh = same_rate(rows, task), paired_rows(paired, task, "fresh", "").iloc[0]
        if same is not None:
            less.append(Setting((arms.SAME, name), decided(same.high < fresh.low, same.low > fresh.high), False))
        own = paired_rows(paired, task, "clip", "fresh").iloc[0]
        less.append(Setting((arms.TUNED, name), decided(own.high < 0.0, own.low > 0.0)))
    return {"less": sorted(less, key=lambda each: each.inside)}
