"""PipelineRL beside conventional training: seconds of a step against staleness."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import roll_flash
from paper_figures import _script, pipeline_rl
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"pipeline_rl": {"part": "speed", "task": "none (timing only)", "staleness": "measured"}}


def title(rows: Any) -> str:
    """What PipelineRL's steps and returns show, if they do."""
    twice = 1.75 <= pipeline_rl.speed(rows, pipeline_rl.near(rows))[1] / pipeline_rl.speed(rows, 0)[1] < 2.5
    words = f"With {roll_flash.POOL} slots, PipelineRL halves the time per step at similar staleness"
    return _script.finding(twice, words, "Seconds of an optimizer step by staleness")


def draw(rows: Any) -> Figure:
    """Seconds of a step, conventional and in flight; times until a return are numbers."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        left = figure.subplots()
        pipeline_rl.draw_lag(left, rows, "speed", lambda steps: pipeline_rl.speed(rows, steps)[1:])
        left.set(ylabel="seconds per step", ylim=(0.0, None))
        x, y, _ = pipeline_rl.speed(rows, 0)
        look.say(left, x + 0.6, y - 0.25, "PipelineRL", pipeline_rl.PIPELINE["color"])
        look.say(left, 2.6, 2.7, "conventional", pipeline_rl.CONVENTIONAL["color"])
        figure.suptitle(title(rows), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Seconds stand beside staleness."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether PipelineRL reaches a return twice as fast as a conventional setting, by task and optimizer steps."""
    found = []
    for task in pipeline_rl.TASKS:
        for steps in pipeline_rl.conventional(rows, "learning"):
            _, low, high = pipeline_rl.sooner(rows, task, steps)
            found.append(Setting((f"{task}, steps per generation", str(steps)), decided(low >= 2.0, high < 2.0)))
    return {"twice": found}
