"""Return against staleness at one rate and at best ones; in how many settings BAPO returns more is numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"bapo_steps": {"part": "grid", "task": "64 tokens", "rate": "4 × best synchronous; own best"}}
SHOWN = ("clip", "bapo", "half", "none")
TITLES = {"bold": "Four times the best synchronous learning rate", "best": "Each method at its own best learning rate"}
OTHERS = ("clip", "higher", "none")
TASK, STALE = "long", 8
"""The task that is drawn; least staleness of the finding."""


def task(rows: Any) -> str:
    """The task that is drawn."""
    return TASK if TASK in steps.tasks(rows) else steps.tasks(rows)[0]


def levels(rows: Any) -> list[int]:
    """Stalenesses that the drawn task has on data that are used once, fresh data first."""
    own = steps.grid(rows, task=task(rows), arm="clip", quantity="mean")
    return sorted(int(level) for level in own[own.epochs == own.epochs.min()].staleness.unique())


def point(rows: Any, level: int, arm: str, times: float | None) -> Any:
    """An arm's mean return at a staleness; all arms are one on fresh data."""
    return steps.at(rows, "mean", times, task=task(rows), staleness=level, epochs=1, arm=arm if level else "clip")


def panel(ax: Axes, rows: Any, times: float | None) -> None:
    """A line an arm."""
    found = levels(rows)
    for shift, arm in enumerate(SHOWN):
        points = [point(rows, level, arm, times) for level in found]
        own = type(rows)(points)
        places = [place + 0.06 * (shift - 1.5) for place in range(len(found))]
        look.points(ax, places, own, **look.CONNECTED, **{**steps.ARMS[arm], "markersize": 3.5})
    ax.set(ylim=(-0.03, 1.03), xlabel="staleness (versions)")
    look.ticks(ax.xaxis, range(len(found)), [str(level) for level in found])


def holds(rows: Any) -> bool:
    """Whether at drawn stalenesses but the least, at both rates, BAPO wins beside the clip, and no clip beside all."""
    pairs = [("bapo", "clip"), ("half", "clip"), *(("none", other) for other in SHOWN[:-1])]
    return levels(rows)[2:3] == [STALE] and all(
        steps.word(*(point(rows, level, arm, times) for arm in pair)) == "wins"
        for times in steps.READINGS.values() for level in levels(rows)[2:] for pair in pairs
    )  # fmt: skip


def draw(rows: Any) -> Figure:
    """Return against staleness at one rate and at best rates."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, (reading, title) in zip(axes, TITLES.items(), strict=True):
            panel(ax, rows, steps.READINGS[reading])
            ax.set_title(title)
        axes[0].set_ylabel("mean return over training")
        ends = {arm: point(rows, levels(rows)[-1], arm, None).value for arm in SHOWN}
        look.ends(axes[1], {steps.NAMES[arm]: (float(end), steps.ARMS[arm]["color"]) for arm, end in ends.items()})
        look.side(axes[0], steps.TARGET, 0.46, 0.08)
        _script.headline(figure, holds(rows), f"Return on stale data, {steps.TASKS[task(rows)]}")
    return figure


def leads(rows: Any, name: str, times: float | None) -> list[float]:
    """By how much BAPO at the larger target leads the clip on a task, from the least to the largest staleness."""
    found = sorted({place["staleness"] for place in steps.places(rows) if place["staleness"]})
    return [
        steps.at(rows, "mean", times, task=name, staleness=old, epochs=1, arm="half").value
        - steps.at(rows, "mean", times, task=name, staleness=old, epochs=1, arm="clip").value
        for old in found
    ]


def numbers(rows: Any) -> dict[str, str]:
    """Wins, ties and losses of BAPO at both targets beside clips and no clip, by reading of the rate."""
    found = {"less": "0.4", "more": "0.5", "places": str(len(steps.places(rows))), "smallest": f"{steps.SMALLEST:g}"}
    for reading, times in steps.READINGS.items():
        for arm, other in (*(("half", other) for other in OTHERS), ("bapo", "clip")):
            found[f"{arm}_{other}_{reading}"] = steps.score(steps.counted(rows, arm, other, times))
        for axis in ("staleness", "epochs"):
            found[f"{axis}_{reading}"] = steps.score(steps.counted(rows, "half", "clip", times, axis))
    every = [leads(rows, name, times) for name in steps.tasks(rows) for times in steps.READINGS.values()]
    found["cases"] = str(len(every))
    found["grows_last"] = str(sum(len(lead) > 1 and lead[-1] > lead[-2] for lead in every))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether BAPO at the larger target returns more than the clip, by more than `SMALLEST`."""

    def ahead(place: dict[str, Any], times: float | None) -> bool | None:
        half, clip = (steps.at(rows, "mean", times, **place, arm=arm) for arm in ("half", "clip"))
        found, top = steps.word(half, clip), half.value - clip.value + steps.reach(half, clip)
        return decided(found == "wins", found == "losses" or top < steps.SMALLEST)

    readings = {"4× rate": steps.BOLD, "tuned rates": None}
    return {"ahead": steps.settings(rows, readings, ahead, reused=True)}
