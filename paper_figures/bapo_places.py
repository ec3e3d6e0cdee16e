"""Return against staleness and against reuse, for all arms at one rate and each at its best."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"bapo_steps": {"part": "grid", "task": "long", "rate": "4 × best synchronous; own best"}}
SHOWN = ("clip", "bapo", "half", "none")
TITLES = {"bold": "four times the best synchronous rate", "best": "each at its best rate"}
OTHERS = {"clip": "clip", "higher": "clip-higher", "none": "no clip"}
TASK = "long"


def task(rows: Any) -> str:
    """The task that is drawn."""
    return TASK if TASK in steps.tasks(rows) else steps.tasks(rows)[0]


def levels(rows: Any, axis: str) -> list[int]:
    """Stalenesses or uses that the drawn task has, fresh data first."""
    own = steps.grid(rows, task=task(rows), arm="clip", quantity="mean")
    other = {"staleness": "epochs", "epochs": "staleness"}[axis]
    return sorted(int(level) for level in own[own[other] == own[other].min()][axis].unique())


def point(rows: Any, axis: str, level: int, arm: str, times: float | None) -> Any:
    """An arm's mean return at a staleness or a number of uses; all arms are one on fresh data."""
    place = {"task": task(rows), "staleness": 0, "epochs": 1, axis: level}
    fresh = place["staleness"] == 0 and place["epochs"] == 1
    return steps.at(rows, "mean", times, **place, arm="clip" if fresh else arm)


def panel(ax: Axes, rows: Any, axis: str, times: float | None) -> None:
    """A line an arm."""
    found = levels(rows, axis)
    for shift, arm in enumerate(SHOWN):
        points = [point(rows, axis, level, arm, times) for level in found]
        own = type(rows)(points)
        places = [place + 0.06 * (shift - 1.5) for place in range(len(found))]
        look.points(ax, places, own, **look.CONNECTED, **{**steps.ARMS[arm], "markersize": 3.5})
    ax.set(ylim=(-0.03, 1.03), xlabel={"staleness": "staleness (versions)", "epochs": "uses of a batch"}[axis])
    look.ticks(ax.xaxis, range(len(found)), [str(level) for level in found])


def holds(rows: Any) -> bool:
    """Whether BAPO at 0.5 wins most places beside the clip at the bold rate, and few beside no clip at best rates."""
    bold, best = steps.counted(rows, "half", "clip", steps.BOLD), steps.counted(rows, "half", "none", None)
    return bold["wins"] > bold["ties"] + bold["losses"] and best["losses"] > best["wins"] + best["ties"]


def draw(rows: Any) -> Figure:
    """Staleness on the left, reuse on the right; one rate above, best rates below."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.4)
        axes = figure.subplots(2, 2, sharey=True)
        for row, (reading, title) in zip(axes, TITLES.items(), strict=True):
            for ax, axis in zip(row, ("staleness", "epochs"), strict=True):
                panel(ax, rows, axis, steps.READINGS[reading])
                ax.set_title(title)
            row[0].set_ylabel("mean return over training")
        handles = [Line2D([], [], label=steps.NAMES[arm], **look.CONNECTED, **steps.ARMS[arm]) for arm in SHOWN]
        words = "At a bold rate BAPO beats the clip in most settings; tuned, training without a clip is best"
        title = _script.finding(holds(rows), words, f"Return on old and on reused data, {steps.TASKS[task(rows)]}")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=handles, ncols=len(handles), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Wins, ties and losses of BAPO at both targets beside clips and no clip, by reading of the rate."""
    found = {
        "less": "0.4",
        "more": "0.5",
        "places": str(len(steps.places(rows))),
        "smallest": f"{steps.SMALLEST:g}",
        "times": f"{steps.BOLD:g}",
    }
    for arm in ("bapo", "half"):
        for other in OTHERS:
            for reading, times in steps.READINGS.items():
                found[f"{arm}_{other}_{reading}"] = steps.score(steps.counted(rows, arm, other, times))
    for axis in ("staleness", "epochs"):
        for reading in TITLES:
            found[f"{axis}_{reading}"] = steps.score(steps.counted(rows, "half", "clip", steps.READINGS[reading], axis))
    for name in steps.TASKS:
        known = name in steps.tasks(rows)
        found[f"rate_{name}"] = f"{steps.usual(rows, name):g}" if known else "none"
    return found
