"""Entropy and return over updates from a policy that is nearly sure of a wrong token, on the stalest data."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import bapo_steps as experiment
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"bapo_steps": {"part": "grid", "task": ("long", "noisy"), "rate": "best synchronous"}}
SHOWN = ("long", "noisy")
QUANTITIES = {"entropy": "entropy (nats per token)", "return": "return of the trained policy"}


def oldest(rows: Any) -> int:
    """The largest staleness, updates."""
    return int(rows[rows.part == "course"].staleness.max())


def shown(rows: Any) -> list[str]:
    """Tasks that are drawn."""
    return [task for task in steps.tasks(rows) if task in SHOWN] or steps.tasks(rows)


def curve(rows: Any, task: str, arm: str, quantity: str) -> Any:
    """A quantity over updates at the best synchronous rate."""
    place = {"task": task, "arm": arm, "staleness": oldest(rows), "epochs": 1}
    own = steps.grid(rows, part="course", quantity=quantity, **place)
    return steps.near(own, steps.usual(rows, task)).sort_values("number")


def panel(ax: Axes, rows: Any, task: str, quantity: str) -> None:
    """Curves of all arms."""
    for arm, style in steps.ARMS.items():
        own = curve(rows, task, arm, quantity)
        look.points(ax, own.number, own, **look.CONNECTED, **{**style, "markersize": 2.8, "capsize": 1.0})


def ends(rows: Any, task: str, arm: str, quantity: str, times: float | None = 1.0) -> Any:
    """A quantity over the last tenth of the run, on the stalest data."""
    return steps.at(rows, quantity, times, task=task, arm=arm, staleness=oldest(rows), epochs=1)


def lost(rows: Any) -> bool:
    """Whether the clip ends with less entropy than it began with, and less than half of the return on fresh data."""
    found = []
    for task in shown(rows):
        first = curve(rows, task, "clip", "entropy").value.iloc[0]
        found.append(ends(rows, task, "clip", "entropy_end").high < first)
        found.append(ends(rows, task, "clip", "end").value < 0.5 * ends(rows, task, "fresh", "end").value)
    return all(found)


def draw(rows: Any) -> Figure:
    """Entropy above, return below; a column a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.2)
        tasks = shown(rows)
        axes = figure.subplots(2, len(tasks), sharex=True, squeeze=False)
        for column, task in enumerate(tasks):
            for ax, quantity in zip(axes[:, column], QUANTITIES, strict=True):
                panel(ax, rows, task, quantity)
            axes[0, column].set_title(f"{steps.TASKS[task]}, rate {steps.usual(rows, task):g}")
            axes[0, column].set_ylim(0.0, None)
            axes[1, column].set(xlabel=f"update, on data {oldest(rows)} versions old", ylim=(-0.03, 1.03))
        for ax, label in zip(axes[:, 0], QUANTITIES.values(), strict=True):
            ax.set_ylabel(label)
        handles = [
            Line2D([], [], label=steps.NAMES[arm], **look.CONNECTED, **style) for arm, style in steps.ARMS.items()
        ]
        words = "On old data the clip loses entropy and finds less than half of the return"
        title = _script.finding(lost(rows), words, "Entropy and return over updates on old data")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What is left at the end of training, by task and arm; the start's entropy."""
    found = {
        "less": "0.4",
        "more": f"{experiment.HALF:g}",
        "old": str(oldest(rows)),
        "runs": f"{int(rows.samples.min())} to {int(rows.samples.max())}",
    }
    found["start"] = f"{curve(rows, shown(rows)[0], 'clip', 'entropy').value.iloc[0]:.2f}"
    for task in SHOWN:
        for arm in steps.ARMS:
            for key, quantity in (("h", "entropy_end"), ("r", "end")):
                known = task in steps.tasks(rows)
                found[f"{task}_{arm}_{key}"] = look.value(ends(rows, task, arm, quantity)) if known else "none"
    return found
