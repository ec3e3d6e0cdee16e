"""PipelineRL beside conventional training: seconds of a step against staleness."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script, pipeline_rl
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"pipeline_rl": {"part": "speed", "task": "none (timing only)", "staleness": "measured"}}


def draw(rows: Any) -> Figure:
    """Seconds of a step, conventional and in flight; times until a return are numbers."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        left = figure.subplots()
        pipeline_rl.draw_lag(left, rows, "speed", lambda steps: pipeline_rl.speed(rows, steps)[1:])
        left.set(ylabel="seconds per step", ylim=(0.0, None))
        x, y, _ = pipeline_rl.speed(rows, 0)
        near, slow, _ = pipeline_rl.speed(rows, pipeline_rl.near(rows))
        look.say(left, x + 0.2, y - 0.2, f"PipelineRL: {y:.2f} s", pipeline_rl.PIPELINE["color"])
        look.say(left, near, slow + 0.45, f"{slow:.2f} s", pipeline_rl.CONVENTIONAL["color"], ha="center")
        look.say(left, 1.8, 2.9, "conventional training", pipeline_rl.CONVENTIONAL["color"])
        _script.headline(figure, 1.75 <= slow / y < 2.5, "Seconds of an optimizer step by staleness")
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
