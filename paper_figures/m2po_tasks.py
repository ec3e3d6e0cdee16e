"""Returns at the end on six tasks, fresh and 256 updates old: one rate for all, and each arm at its own best."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="six tasks", staleness=(0, 256), rate="best synchronous, 4 × it, own best")
ARMS = ("fresh", "m2po", "clip", "none")
TITLES: dict[str, tuple[str, dict[str, Any]]] = {
    "usual": ("best synchronous rate", {"color": look.COLOR["controlled"], "marker": "^"}),
    "bold": (f"{steps.BOLD:g} × that rate", {"color": look.COLOR["stale"], "marker": "s"}),
    "best": ("own best rates", {"color": look.COLOR["tuned"], "marker": "D"}),
}


def tasks(rows: Any) -> list[str]:
    """Tasks of which there are all arms."""
    return [task for task in steps.TASKS if all(len(steps.runs(rows, task, arm, "end")) for arm in ARMS)]


def end(rows: Any, task: str, arm: str, reading: str, quantity: str = "end") -> Any:
    """The row of an arm at the best synchronous rate, at the bold one, or at its own best."""
    if reading == "best":
        return steps.best(rows, task, arm, quantity, quantity)
    return steps.at(rows, task, arm, quantity, steps.usual(rows, task) * (steps.BOLD if reading == "bold" else 1.0))


def beside(rows: Any, task: str, arm: str, other: str, reading: str, quantity: str = "end") -> int:
    """1 where an arm returns more than another beyond `AS_GOOD` and both intervals, -1 where less."""
    one, two = (end(rows, task, each, reading, quantity) for each in (arm, other))
    if abs(one.value - two.value) < steps.AS_GOOD:
        return 0
    return int(one.low > two.high) - int(one.high < two.low)


def matched(rows: Any, reading: str, arm: str = "m2po", quantity: str = "end") -> list[str]:
    """Tasks on which an arm comes as far on old data as fresh training, within `NEAR`."""
    pairs = {task: [end(rows, task, each, reading, quantity).value for each in (arm, "fresh")] for task in tasks(rows)}
    return [task for task, (own, fresh) in pairs.items() if own > fresh - steps.NEAR]


def behind(rows: Any, task: str, reading: str) -> Any:
    """Return of M2PO at the end less that of fresh training, as if both were independent."""
    own, fresh = (end(rows, task, arm, reading) for arm in ("m2po", "fresh"))
    value, reach = own.value - fresh.value, math.hypot(own.high - own.low, fresh.high - fresh.low) / 2
    return pd.DataFrame([{"value": value, "low": value - reach, "high": value + reach}])


def draw(rows: Any) -> Figure:
    """A line a task, a mark a reading."""
    with _style.applied():
        figure, there = _style.picture(_style.WIDTH, 3.0), tasks(rows)
        ax = figure.subplots()
        for side, (reading, (_, style)) in zip((-0.2, 0.0, 0.2), TITLES.items(), strict=True):
            for y, task in enumerate(there):
                look.points(ax, [y + side], behind(rows, task, reading), sideways=True, **style)
        ax.set(ylim=(len(there) - 0.5, -0.5), xlabel="return of M2PO at the end − that of fresh training")
        look.ticks(ax.yaxis, range(len(there)), [steps.TASKS[task] for task in there])
        counts = [len(matched(rows, reading)) for reading in TITLES]
        words = (
            f"At the best synchronous rate, M2PO ends as high as fresh training on {counts[0]} of {len(there)} tasks"
        )
        title = _script.finding(0 < counts[0] < len(there), words, "M2PO beside fresh training at the end, by task")
        look.legend(figure, [ax], dict(TITLES.values()), steps.NEAR, title)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Ends at the best synchronous rate; matches with fresh training, wins and losses beside the clip, by reading."""
    there = tasks(rows)
    found = {"tasks": str(len(there)), "near": f"{steps.NEAR:g}", "staleness": f"{steps.oldest(rows)}"}
    for reading in TITLES:
        found[f"matched_{reading}"] = str(len(matched(rows, reading)))
        signs = [beside(rows, task, "m2po", "clip", reading) for task in there]
        found |= {f"{key}_{reading}": str(signs.count(sign)) for key, sign in (("won", 1), ("lost", -1))}
    found["peaks"] = str(len(matched(rows, "usual", "m2po", "peak")))
    found["free"] = str(len(matched(rows, "best", "none", "peak")))
    found |= {f"{task}_{arm}": f"{end(rows, task, arm, 'usual').value:.2f}" for task in there for arm in ARMS}
    return steps.complete(found, [f"{task}_{arm}" for task in steps.TASKS for arm in ARMS])
