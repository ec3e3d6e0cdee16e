"""Returns of the delightful gate and of its rivals − those without correction, each at its best learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"delight": {"part": "compare", "arm": ("exact IS", "DG")}}
STALE = "constant 32"
LAWS = {
    "fresh": ("fresh data", look.SYNCHRONOUS),
    STALE: ("data 32 versions old", {"color": look.COLOR["stale"], "marker": "o"}),
}
NAMES = {"exact IS": "exact IS", "DG": "DG"}
GATE = "DG multiplies the gradient of each token by sigmoid(advantage × surprisal); surprisal: −log-prob"
"""Arms that are drawn."""
TASKS = ("bandit", "graded", "sparse")


def draw_task(ax: Axes, rows: Any, task: str, arms: list[str]) -> None:
    """A line for each arm, a mark for each kind of data."""
    for shift, (law, (_, style)) in zip((-0.16, 0.16), LAWS.items(), strict=True):
        own = _script.pick(rows, part="compare", task=task, law=law).dropna(subset="difference")
        own = own[own.arm.isin(arms)]
        places = [arms.index(arm) + shift for arm in own.arm]
        look.points(ax, places, own.assign(value=own.difference), sideways=True, **style)
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(len(arms) - 0.5, -0.5), title=task, xlabel="return minus that without correction")
    ax.locator_params(axis="x", nbins=4)
    look.ticks(ax.yaxis, range(len(arms)), [NAMES[arm] for arm in arms])


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    arms = [arm for arm in NAMES if (rows.arm == arm).any()]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.2)
        for ax, task in zip(figure.subplots(1, 3, sharex=True, sharey=True), TASKS, strict=True):
            draw_task(ax, rows, task, arms)
        look.side(figure.axes[0], "left of 0: worse", 0.78, 0.93)
        marks = [Line2D([], [], linestyle="none", label=name, **style) for name, style in (*LAWS.values(), (GATE, {}))]
        lost = _script.pick(rows, part="compare", law=STALE, arm="DG", word="worse")
        won = _script.pick(rows, part="compare", law=STALE, word="better").arm.isin(["DG", "exact IS"])
        _script.headline(figure, set(lost.task) == set(TASKS) and not won.any(), "Returns of DG and of its rivals")
        look.below(figure, marks)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Differences stand beside cosines."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether tuned DG returns more on stale data than tuned exact IS, by task and temperature."""
    found = []
    for arm, name in (("DG", "temperature 1"), ("DG, 1/4", "temperature 1/4")):
        for task in TASKS:
            own, rival = (
                _script.pick(rows, part="compare", task=task, law=STALE, arm=each).iloc[0] for each in (arm, "exact IS")
            )
            value = own.difference - rival.difference
            low = value - np.hypot(own.difference - own.low, rival.high - rival.difference)
            high = value + np.hypot(own.high - own.difference, rival.difference - rival.low)
            found.append(Setting((name, task), decided(low > 0.0, high < 0.0)))
    return {"beats": found}
