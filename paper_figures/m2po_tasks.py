"""Returns at the end on six tasks, fresh and 256 updates old: one rate for all, and each arm at its own best."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="six tasks", staleness=(0, 256), rate="best synchronous, 4 × it, own best")
ARMS = ("fresh", "m2po", "clip", "none")
TITLES = {"usual": "best synchronous rate", "bold": "4 × best synchronous", "best": "own best rates"}


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


def draw_reading(ax: Axes, rows: Any, reading: str) -> None:
    """A line a task, a mark an arm; tasks on which M2PO ends as fresh training are shaded."""
    there, as_fresh = tasks(rows), matched(rows, reading)
    for task in as_fresh:
        ax.axhspan(there.index(task) - 0.42, there.index(task) + 0.42, color=look.COLOR["effect"], linewidth=0)
    for place, arm in enumerate(ARMS):
        for y, task in enumerate(there):
            row = end(rows, task, arm, reading).to_frame().T.infer_objects()
            look.points(ax, [y + 0.17 * (place - 1.5)], row, sideways=True, **{**steps.LOOKS[arm], "markersize": 3.2})
    ax.set(ylim=(len(there) - 0.5, -0.5), xlabel="return at the end")
    ax.set_title(f"{TITLES[reading]}: {len(as_fresh)} of {len(there)}")
    look.ticks(ax.yaxis, range(len(there)), [steps.TASKS[task] for task in there])


def draw(rows: Any) -> Figure:
    """A panel a reading."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.3)
        for ax, reading in zip(figure.subplots(1, len(TITLES), sharey=True, sharex=True), TITLES, strict=True):
            draw_reading(ax, rows, reading)
        usual, tuned, every = len(matched(rows, "usual")), len(matched(rows, "best")), len(tasks(rows))
        first = f"M2PO ends within {steps.NEAR:g} of fresh training (shaded) on {usual} of {every} tasks"
        words = f"{first}, at own best rates on {tuned}"
        title = _script.finding(0 < usual < every, words, "Returns at the end, by task")
        steps.key(figure, ARMS, title)
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
