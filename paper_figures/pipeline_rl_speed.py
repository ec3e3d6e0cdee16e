"""PipelineRL beside conventional training: seconds of a step against staleness, and seconds until a return."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import pipeline_rl as experiment
from experiments import roll_flash
from paper_figures import _script, pipeline_rl
from paper_figures import _vcpo as look

EXPERIMENTS = {"pipeline_rl": {"part": "learning", "chosen": True, "staleness": "measured"}}


def draw_learning(ax: Axes, rows: Any) -> None:
    """Seconds of conventional training over PipelineRL's, each at its best rate."""
    own, names = pipeline_rl.conventional(rows, "learning"), {"equal": (1.0, look.COLOR["muted"])}
    for shift, (task, style) in zip((0.92, 1.0, 1.09), look.TASK.items(), strict=True):
        found = [pipeline_rl.sooner(rows, task, steps) for steps in own]
        reach = [[value - low for value, low, _ in found], [high - value for value, _, high in found]]
        marks = {**_style.MEASURED, **look.CONNECTED, **style}
        ax.errorbar([shift * each for each in own], [value for value, _, _ in found], yerr=reach, **marks)
        names[task] = (found[-1][0], style["color"])
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="optimizer steps per generation (conventional)", ylim=(0.05, 20.0))
    ax.set_ylabel("conventional time / PipelineRL's")
    best = [pipeline_rl.sooner(rows, task, int(pipeline_rl.best(rows, task).steps)) for task in look.TASK]
    undecided = all(low <= 1.0 <= high for _, low, high in best)
    name = f"time to a return of {experiment.TARGET:g}"
    ax.set_title(_script.finding(undecided, f"{name}: undecided at the best setting", name))
    look.ticks(ax.xaxis, own)
    look.ticks(ax.yaxis, (0.1, 0.3, 1, 3, 10))
    look.ends(ax, names)


def title(rows: Any) -> str:
    """What PipelineRL's steps and returns show, if they do."""
    twice = 1.75 <= pipeline_rl.speed(rows, pipeline_rl.near(rows))[1] / pipeline_rl.speed(rows, 0)[1] < 2.5
    words = "At equal staleness, PipelineRL halves the time of an optimizer step"
    return _script.finding(twice, words, "PipelineRL beside conventional training: speed and learning")


def draw(rows: Any) -> Figure:
    """A step on the left, learning on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        pipeline_rl.draw_lag(left, rows, "speed", lambda steps: pipeline_rl.speed(rows, steps)[1:])
        left.set(ylabel="seconds per step", title=f"time of a step, {roll_flash.POOL} slots", ylim=(0.0, None))
        x, y, _ = pipeline_rl.speed(rows, 0)
        look.say(left, x + 0.6, y - 0.25, "PipelineRL", pipeline_rl.PIPELINE["color"])
        look.say(left, 2.6, 2.7, "conventional", pipeline_rl.CONVENTIONAL["color"])
        draw_learning(right, rows)
        figure.suptitle(title(rows), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Seconds stand beside staleness."""
    return {}
