"""Measured seconds of a step against ROLL Flash's bounds on them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _roll_sizes as shared
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"roll_sizes": {"part": "bound", "task": "none (timing only)"}}
ARMS = {"queue": ("synchronous queue", shared.OLD), "asynchronous": ("asynchronous", shared.NEW)}


def draw(rows: Any) -> Figure:
    """Seconds against their bounds."""
    with _style.applied():
        figure, held, marks = _style.picture(_style.WIDTH, 3.0), [], []
        ax = figure.subplots()
        for arm, (name, style) in ARMS.items():
            own = _script.pick(rows, part="bound", arm=arm)
            marks.append(look.points(ax, own.bound, own, capsize=0, label=name, **style))
            held.append(bool((own.low <= own.bound).all()))
        ends = [0.8 * own.bound.min(), 1.05 * rows.bound.max()]
        ax.plot(ends, ends, label="time equal to the bound", **_style.PREDICTED)
        ax.set(xscale="log", yscale="log")
        ax.set(
            xlabel="theoretical upper bound (seconds); a mark per ratio and number of samples",
            ylabel="measured time of a step (seconds)",
        )
        look.ticks(ax.xaxis, (50, 100, 200, 400))
        look.ticks(ax.yaxis, (25, 50, 100, 200, 400))
        ax.legend(handles=marks, loc="upper left")
        words = "In every setting, a step takes less time than its theoretical bound"
        title = _script.finding(all(held), words, "Time of a step against its bound")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How near to their bounds seconds come stands beside speeds by latency."""
    return {}
