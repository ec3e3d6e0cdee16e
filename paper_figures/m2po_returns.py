"""Return on data 256 updates old, every arm at its own best learning rate: beside M2PO, and at the end beside fresh."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po
from paper_figures import _m2po as arms
from paper_figures import _vcpo as look

EXPERIMENTS = ("m2po",)
ORDER = ("fresh", "none", "areal", "release", "clip")
ENDS = ("none", "m2po")


def point(ax: Axes, y: float, row: Any, arm: str) -> None:
    """A difference with its interval, if it was compared."""
    if row is not None:
        look.points(ax, [y], row.to_frame().T.infer_objects(), sideways=True, **arms.ARMS[arm])


def draw(rows: Any) -> Figure:
    """A panel a task, every arm less M2PO; then both arms less fresh training, at the end."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.2)
        axes = figure.subplots(2, 2).ravel()
        for ax, (task, name) in zip(axes, arms.TASKS.items(), strict=False):
            for y, arm in enumerate(ORDER):
                point(ax, y, arms.verdict(rows, task, arm), arm)
            ax.set(ylim=(len(ORDER) - 0.5, -0.5), xlabel="mean return − M2PO's", title=name)
            look.ticks(ax.yaxis, range(len(ORDER)), [arms.NAMES[arm] for arm in ORDER])
            for tick, arm in zip(ax.get_yticklabels(), ORDER, strict=True):
                tick.set_color(arms.ARMS[arm]["color"])
        for y, task in enumerate(arms.TASKS):
            for side, arm in zip((-0.15, 0.15), ENDS, strict=True):
                point(axes[3], y + side, arms.verdict(rows, task, arm, "end"), arm)
        axes[3].set(ylim=(2.6, -0.6), xlabel="return − fresh", title="at the end, less fresh training")
        look.ticks(axes[3].yaxis, range(len(arms.TASKS)), list(arms.TASKS.values()))
        for y, arm in zip((-0.15, 0.15), ENDS, strict=True):
            own = {"transform": axes[3].get_yaxis_transform(), "ha": "center"}
            look.say(axes[3], 0.5, 2.2 + 1.2 * y, arms.NAMES[arm], arms.ARMS[arm]["color"], **own)
        for ax in axes:
            ax.axvline(0.0, **_style.REFERENCE)
        figure.suptitle("Stale training without a trust region ends where fresh training does", x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Differences with their words, and how many runs without a trust region collapse at any rate."""
    own = rows[rows.part == "compare"]
    found = {"staleness": f"{own.staleness.max()}", "smallest": f"{m2po.SMALLEST:g}"}
    for task in arms.TASKS:
        found |= {f"{task}_{arm}": said(arms.verdict(rows, task, arm)) for arm in ORDER}
        found |= {f"{task}_{arm}_end": said(arms.verdict(rows, task, arm, "end")) for arm in ENDS}
    for key, arm in (("matched", "m2po"), ("equal", "none")):
        words = [row.word for task in arms.TASKS if (row := arms.verdict(rows, task, arm, "end")) is not None]
        found |= {key: f"{words.count('equal')}", "tasks": f"{len(words)}"}
    lost = [row for task in arms.TASKS for _, row in arms.grid(rows, task, "none", "collapsed").iterrows()]
    found["collapsed"] = look.share(max(lost, key=lambda row: float(row.value)))
    return found


def said(row: Any) -> str:
    """A difference with its word."""
    return "not compared" if row is None else f"{row.word} ({row.value:+.2f})".replace("-", "−")
