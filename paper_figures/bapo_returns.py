"""Return over a run, and mean returns of every arm less BAPO's, each at its best rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import bapo
from paper_figures import _bapo as arms
from paper_figures import _vcpo as look
from paper_figures._script import finding, pick

EXPERIMENTS = {"bapo": {"part": "compare", "law": "constant 32", "tuned": True}}
ORDER = ("released", "intent", "start", "clip", "higher", "none", "rloo")
DRAWN = ("clip", "bapo", "released", "none")
LOOKS = {"bandit": look.TASK["bandit"], "graded": look.TASK["graded"], "bits": look.TASK["sparse"]}
LAST = 80
"""Last update that is drawn; returns hardly change afterwards."""
SHARED = "graded"
"""The task whose runs are drawn over updates."""


def laws(rows: Any) -> dict[str, str]:
    """Laws of the comparison with what a panel calls them."""
    stale = arms.laws(rows)[-1]
    return {stale: f"{arms.age(stale)} versions old", "replay": "replayed", "partial": "from partial rollouts"}


def course(ax: Axes, rows: Any, quantity: str) -> dict[str, tuple[float, str]]:
    """A quantity over updates, at best rates, with bands that end at one; last values and colors by name."""
    law, names = arms.laws(rows)[-1], {}
    for arm in DRAWN:
        own = pick(rows, part="course", task=SHARED, law=law, arm=arm, quantity=quantity).sort_values("number")
        color = arms.ARMS[arm]["color"]
        ax.fill_between(
            own.number, own.low, own.high.clip(upper=1.0), color=color, alpha=0.2, linewidth=0, label="95 % intervals"
        )
        ax.plot(own.number, own.value, color=color, linewidth=1.1)
        names[arms.NAMES[arm]] = (float(own.value.iloc[-1]), color)
    ax.set(xlabel="update", xlim=(0, min(LAST, own.number.max())), title=f"{arms.TASKS[SHARED]}: return over training")
    return names


def compared(ax: Axes, rows: Any, law: str) -> None:
    """Returns less BAPO's, a line for each arm, a mark for each task."""
    for y, arm in enumerate(ORDER):
        for side, (task, style) in zip((-0.25, 0.0, 0.25), LOOKS.items(), strict=True):
            row = arms.difference(rows, task=task, law=law, arm=arm)
            if row is not None:
                look.points(ax, [y + side], row.to_frame().T.infer_objects(), sideways=True, **style)
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(len(ORDER) - 0.5, -0.5), xlabel="mean return − that of BAPO")
    look.ticks(ax.yaxis, range(len(ORDER)), [arms.NAMES[arm] for arm in ORDER])


def draw(rows: Any) -> Figure:
    """Return over a run, and all arms beside BAPO on old data."""
    with _style.applied():
        figure, law = _style.picture(_style.WIDTH, 3.3), arms.laws(rows)[-1]
        first, second = figure.subplots(1, 2)
        names = course(first, rows, "return")
        first.set(ylabel="return", ylim=(0.0, 1.02))
        look.ends(first, names, gap=0.07)
        compared(second, rows, law)
        second.set_title("All methods, three tasks")
        style = {"linestyle": "none", "markersize": 4.0}
        drawn: list[Any] = [
            Line2D([], [], label=f"b: {arms.TASKS[task]}", **style, **each) for task, each in LOOKS.items()
        ]
        found = {
            arm: [row for task in LOOKS if (row := arms.difference(rows, task=task, law=law, arm=arm)) is not None]
            for arm in ORDER
        }
        free = [row.value > 0.0 for arm in ("none", "rloo") for row in found[arm]]
        words = (
            f"On data {laws(rows)[law]}, training without a clip returns more than BAPO, all at tuned learning rates"
        )
        title = finding(np.mean(free) > 0.8, words, "Returns beside BAPO's")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=drawn, ncols=len(drawn), title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words against BAPO by arm, positive shares over tasks, returns at the best rate of fresh data."""
    names, stale = laws(rows), arms.laws(rows)[-1]
    found = {"staleness": f"{arms.age(stale)}", "smallest": f"{bapo.SMALLEST:g}"}
    places = [(task, law) for law in names for task in LOOKS]
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
