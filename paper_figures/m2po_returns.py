"""Return on data 256 updates old, every arm at its own best learning rate: beside M2PO, and at the end beside fresh."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import m2po
from paper_figures import _m2po as arms
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"m2po": {"part": "compare", "tuned": True, **arms.PAID}}
ENDS = {"none": "no trust region", "m2po": "M2PO"}
"""Arms that are drawn, with their names."""


def draw(rows: Any) -> Figure:
    """Both arms beside fresh training at the end, a line a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.0)
        ax = figure.subplots()
        ends = {(task, arm): arms.verdict(rows, task, arm, "end") for task in arms.TASKS for arm in ENDS}
        ax.axvspan(-m2po.SMALLEST, m2po.SMALLEST, color=look.COLOR["effect"], linewidth=0)
        ax.axvline(0.0, **_style.REFERENCE)
        for y, task in enumerate(arms.TASKS):
            for side, arm in zip((-0.15, 0.15), ENDS, strict=True):
                if (row := ends[task, arm]) is not None:
                    own = row.to_frame().T.infer_objects()
                    look.points(ax, [y + side], own, sideways=True, **arms.ARMS[arm])
        after = f"return after {max(_script.settings(rows, 'updates'))} updates"
        ax.set(ylim=(2.6, -0.6), xlabel=f"{after} minus that on fresh data (shaded: within ±{m2po.SMALLEST:g})")
        look.ticks(ax.yaxis, range(len(arms.TASKS)), list(arms.TASKS.values()))
        for height, (arm, name) in zip((-0.15, 0.15), ENDS.items(), strict=True):
            own = {"transform": ax.get_yaxis_transform()}
            look.say(ax, 0.82, height, name, arms.ARMS[arm]["color"], ha="right", **own)
        free = all(ends[task, "none"] is not None and ends[task, "none"].word == "equal" for task in arms.TASKS)
        graded, bandit = (ends[task, "m2po"] for task in ("graded", "bandit"))
        lower = graded is not None and graded.high < -m2po.SMALLEST and bandit is not None and bandit.word == "worse"
        words = (
            "At tuned rates, stale data without a trust region match fresh data; M2PO ends lower on graded and bandit"
        )
        figure.suptitle(_script.finding(free and lower, words, "Final returns beside fresh data's"), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Differences with their words, and how many runs without a trust region collapse at any rate."""
    found = {"smallest": f"{m2po.SMALLEST:g}"}
    for task in arms.TASKS:
        found |= {f"{task}_{arm}_end": said(arms.verdict(rows, task, arm, "end")) for arm in ENDS}
    words = [row.word for task in arms.TASKS if (row := arms.verdict(rows, task, "m2po", "end")) is not None]
    found |= {"matched": f"{words.count('equal')}", "tasks": f"{len(words)}"}
    lost = [row for task in arms.TASKS for _, row in arms.grid(rows, task, "none", "collapsed").iterrows()]
    found["updates"] = str(max(_script.settings(rows, "updates")))
    found["collapsed"] = look.share(worst := max(lost, key=lambda row: float(row.value)))
    found["collapsed_runs"] = f"{int(worst.samples)}"
    return found


def said(row: Any) -> str:
    """A difference with its word."""
    if row is None:
        return "not compared"
    shown = f"{row.value:+.2f}" if abs(row.value) >= 0.005 else "0.00"
    return f"{row.word} ({shown})".replace("-", "−")
