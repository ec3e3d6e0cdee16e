"""How much sooner A3C reaches a return with more workers, on as many times as there are workers."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import actor_critic
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.actor_critic import SPEED, gain

LINEAR = "predicted: linear speed-up"
EXPERIMENTS = {"actor_critic": {"part": "workers", "chosen": True, "staleness": "set by the number of workers"}}


def draw_speed(ax: Axes, rows: Any) -> None:
    """Speedup of A3C's workers, on as many times as there are workers."""
    numbers = list(actor_critic.WORKERS)
    ax.plot(numbers, numbers, label=LINEAR, **_style.PREDICTED)
    look.say(ax, 5.5, 13.0, LINEAR, ha="right")
    ends = {}
    for shift, (task, (name, color, marker)) in zip((0.96, 1.04), SPEED.items(), strict=True):
        own = pd.DataFrame([gain(rows, task, number) for number in numbers[1:]], columns=["value", "low", "high"])
        look.points(ax, [shift * n for n in numbers[1:]], own, color=look.COLOR[color], marker=marker)
        for number, row in zip(numbers[1:], own.itertuples(), strict=True):
            if row.low < 1.0 < row.high:
                look.say(ax, 1.1 * number, row.value, "undecided", look.COLOR[color])
        ends[name] = (float(own.value.iloc[-1]), look.COLOR[color])
    ax.plot(1, 1, "o", color=look.COLOR["muted"], markersize=4.0)
    look.say(ax, 1.05, 0.8, "1 by definition", look.COLOR["muted"])
    ax.set(xscale="log", yscale="log", xlabel="A3C workers", ylabel="speed-up over one worker")
    for axis in (ax.xaxis, ax.yaxis):
        look.ticks(axis, numbers)
    ax.set_xlim(0.9, 18.0)
    look.ends(ax, ends)


def draw(rows: Any) -> Figure:
    """One panel, two tasks."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        draw_speed(figure.subplots(), rows)
        most = actor_critic.WORKERS[-1]
        ends = {task: gain(rows, task, most) for task in SPEED}
        holds = all(low > 1.0 for _, low, _ in ends.values()) and ends["cliff"][0] < ends["firm"][0]
        _script.headline(figure, holds, "Speed of A3C by its workers")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Gains stand beside returns."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether several workers reach the return sooner than one, by task and number."""
    found = []
    for task, (name, *_) in SPEED.items():
        for number in actor_critic.WORKERS[1:]:
            _, low, high = gain(rows, task, number)
            found.append(Setting((name, f"{number}"), decided(low > 1.0, high < 1.0)))
    return {"sooner": found}
