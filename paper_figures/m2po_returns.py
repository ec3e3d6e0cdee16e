"""Return on data 256 updates old, every arm at its own best learning rate: beside M2PO, and at the end beside fresh."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po
from paper_figures import _m2po as arms
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"m2po": {"part": "compare", "tuned": True, "unit": "updates"}}
ORDER = ("fresh", "none", "areal", "release", "clip")
ENDS = ("none", "m2po")
NAMES = {
    "none": "no trust\nregion",
    "areal": "M2PO in\nAReaL's code",
    "release": "M2PO's\nreleased code",
    "clip": "PPO's clip",
}
"""Names of arms on an axis; others have those of `_m2po`."""
LOOKS: dict[str, dict[str, Any]] = {**arms.ARMS, "release": {"color": look.COLOR["tuned"], "marker": "D"}}


def point(ax: Axes, y: float, row: Any, arm: str) -> None:
    """A difference with its interval, if it was compared."""
    if row is not None:
        look.points(ax, [y], row.to_frame().T.infer_objects(), sideways=True, **LOOKS[arm])


def draw_ends(ax: Axes, rows: Any) -> None:
    """Both arms beside fresh training at the end, a line a task."""
    for y, task in enumerate(arms.TASKS):
        for side, arm in zip((-0.15, 0.15), ENDS, strict=True):
            point(ax, y + side, arms.verdict(rows, task, arm, "end"), arm)
    ax.set(ylim=(2.9, -0.6), xlabel="final return − that of fresh data", title="final return, all tasks")
    look.ticks(ax.yaxis, range(len(arms.TASKS)), list(arms.TASKS.values()))
    for height, arm, name in zip((-0.15, 0.15), ENDS, ("no trust region", "M2PO"), strict=True):
        own = {"transform": ax.get_yaxis_transform()}
        look.say(ax, 0.05, height, name, LOOKS[arm]["color"], **own)


def draw(rows: Any) -> Figure:
    """Both arms beside fresh training, at the end; then a panel a task, every arm beside M2PO."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.6)
        axes = figure.subplots(2, 2).ravel()
        draw_ends(axes[0], rows)
        for ax, (task, name) in zip(axes[1:], arms.TASKS.items(), strict=True):
            for y, arm in enumerate(ORDER):
                point(ax, y, arms.verdict(rows, task, arm), arm)
            ax.set(
                ylim=(len(ORDER), -0.5), xlabel="mean return − that of M2PO", title=f"mean return over training, {name}"
            )
            look.ticks(ax.yaxis, range(len(ORDER)), [NAMES.get(arm, arms.NAMES[arm]) for arm in ORDER])
            for tick, arm in zip(ax.get_yticklabels(), ORDER, strict=True):
                tick.set_color(LOOKS[arm]["color"])
        for ax, name in zip(axes, ("fresh data", *["M2PO"] * len(arms.TASKS)), strict=True):
            ax.axvline(0.0, **_style.REFERENCE)
            own = {"transform": ax.get_xaxis_transform(), "ha": "right"}
            look.say(ax, 0.0, 0.06, f"{name} ", look.COLOR["muted"], **own)
        ends = {(task, arm): arms.verdict(rows, task, arm, "end") for task in arms.TASKS for arm in ENDS}
        free = all(ends[task, "none"] is not None and ends[task, "none"].word == "equal" for task in arms.TASKS)
        graded = ends["graded", "m2po"]
        lower = graded is not None and graded.high < -m2po.SMALLEST
        words = "At tuned rates, old data without a trust region end as fresh data do; M2PO ends lower on graded tokens"
        title = _script.finding(free and lower, words, "Returns beside fresh training's at the end, and beside M2PO's")
        figure.suptitle(title, x=0.01, ha="left")
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
    if row is None:
        return "not compared"
    shown = f"{row.value:+.2f}" if abs(row.value) >= 0.005 else "0.00"
    return f"{row.word} ({shown})".replace("-", "−")
