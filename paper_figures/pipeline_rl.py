"""PipelineRL: staleness along a sample, seconds and effective samples against lag, seconds to a return."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.base import laws
from asyncsim.plotting import _style
from experiments import pipeline_rl
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("pipeline_rl",)
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
PIPELINE: dict[str, Any] = {"color": look.COLOR["controlled"], "marker": "^"}
TASK_LOOKS = {"bandit": ("random", "v"), "graded": ("held", "s"), "sparse": ("tuned", "D")}
CONVENTIONAL: dict[str, Any] = {"color": look.COLOR["stale"], "marker": "o"}


def predicted(sigma: float, places: np.ndarray) -> np.ndarray:
    """Staleness of the first token less the publishes expected since: samples begin at a publish."""
    law = laws.as_law("length", f"lognormal:1.0:{sigma}")
    publishes = np.arange(1, 400)[:, None]
    return pipeline_rl.HEAD - law.survival(publishes / (pipeline_rl.PUBLISHES * np.maximum(places, 1e-9))).sum(0)


def speed(rows: Any, steps: int) -> tuple[float, float, tuple[float, float]]:
    """Mean lag, seconds of a step with half of its interval, of the share that trains fastest."""
    own = _script.pick(rows, part="speed", steps=steps)
    own = own[own.share == own.groupby("share").seconds.mean().idxmin()]
    seconds = _script.interval(own.seconds.to_numpy())
    return float(own.lag.mean()), seconds[0], seconds


def conventional(rows: Any, part: str) -> list[int]:
    """Numbers of optimizer steps to a generation that were measured."""
    return sorted(int(s) for s in _script.pick(rows, part=part).steps.unique() if s > 0)


def fastest(rows: Any, task: str, steps: int) -> Any:
    """The row of the best rate of an arm."""
    return _script.pick(rows, part="learning", task=task, steps=steps, chosen=True).iloc[0]


def best(rows: Any, task: str) -> Any:
    """The fastest conventional arm's row at its best rate."""
    found = [fastest(rows, task, steps) for steps in conventional(rows, "learning")]
    return min(found, key=lambda row: float(row.value))


def draw_stairs(ax: Axes, rows: Any) -> None:
    """Every fourth token measured, the prediction at all."""
    for sigma, more in zip(pipeline_rl.SPREADS, ({"marker": "o"}, {"marker": "^", **look.HOLLOW}), strict=True):
        means = _script.pick(rows, part="stairs", sigma=sigma).groupby("place").value.mean()
        fine = np.linspace(0.0, 1.0, 200)
        ax.plot(fine, predicted(sigma, fine), **_style.PREDICTED)
        shown = means.iloc[::4] if sigma > 0.5 else means
        name = "lengths alike" if sigma < 0.5 else "lengths of spread 1"
        style = {**PIPELINE, "linestyle": "none", "markersize": 4, **more}
        ax.plot(shown.index, shown.values, label=name, **style)
    ax.legend(frameon=False, fontsize=7)
    ax.set(xlabel="share of the sample written", ylabel="staleness, publishes")
    means = _script.pick(rows, part="stairs").groupby(["sigma", "place"]).value.mean().unstack()
    fresher = (means.iloc[:, 0].round() == pipeline_rl.HEAD).all() and (
        means.iloc[:, -1] < means.iloc[:, 0] - 1.0
    ).all()
    words = f"tokens grow fresher, the first set {pipeline_rl.HEAD} old"
    ax.set_title(_script.finding(fresher, words, "staleness of tokens"))


def draw_lag(ax: Axes, rows: Any, part: str, value: Any) -> None:
    """A quantity of conventional arms against their lag, and PipelineRL's."""
    own = conventional(rows, part)
    lags = [speed(rows, steps)[0] for steps in own]
    ax.plot(lags, [value(steps) for steps in own], **{**CONVENTIONAL, "linewidth": 0.9, "markersize": 4})
    ax.plot([speed(rows, 0)[0]], [value(0)], linestyle="none", markersize=6, **PIPELINE)
    ax.set(xlabel="mean lag of a token, updates")


def sooner(rows: Any, task: str, steps: int) -> tuple[float, float, float]:
    """Seconds of a conventional arm over PipelineRL's, each at its best rate, with the widest interval of the ratio."""
    base, other = fastest(rows, task, 0), fastest(rows, task, steps)
    return other.value / base.value, other.low / base.high, other.high / base.low


def draw_learning(ax: Axes, rows: Any) -> None:
    """Seconds of conventional training over PipelineRL's, each at its best rate."""
    for shift, (task, name) in zip((0.92, 1.0, 1.09), TASKS.items(), strict=True):
        color, marker = TASK_LOOKS[task]
        own = conventional(rows, "learning")
        found = [sooner(rows, task, steps) for steps in own]
        reach = [[value - low for value, low, _ in found], [high - value for value, _, high in found]]
        style = {**_style.MEASURED, **look.CONNECTED, "color": look.COLOR[color], "marker": marker, "markersize": 3.5}
        ax.errorbar([shift * each for each in own], [value for value, _, _ in found], yerr=reach, label=name, **style)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="conventional steps per generation", ylabel="times PipelineRL's")
    ax.set_title(f"seconds to a return of {pipeline_rl.TARGET:g}")
    look.ticks(ax.xaxis, own)
    look.ticks(ax.yaxis, (0.1, 0.3, 1, 3, 10))
    ax.set_ylim(0.05, 40.0)
    ax.legend(frameon=False, fontsize=7, loc="upper center", ncols=3, columnspacing=0.8, handlelength=1.2)


def title(rows: Any) -> str:
    """What PipelineRL's steps and returns show, if they do."""
    lag, seconds, _ = speed(rows, 0)
    near = min(conventional(rows, "speed"), key=lambda each: abs(speed(rows, each)[0] - lag))
    twice = 1.75 <= speed(rows, near)[1] / seconds < 2.5
    ends = [sooner(rows, task, int(best(rows, task).steps)) for task in TASKS]
    words = "At equal lag PipelineRL steps twice as fast; learning sooner than the best is undecided"
    undecided = all(low <= 1.0 <= high for _, low, high in ends)
    return _script.finding(twice and undecided, words, "PipelineRL beside conventional training: lag, speed, learning")


def draw(rows: Any) -> Figure:
    """Four panels."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.6)
        axes = figure.subplots(2, 2).ravel()
        draw_stairs(axes[0], rows)
        draw_lag(axes[1], rows, "speed", lambda steps: speed(rows, steps)[1])
        axes[1].set(ylabel="seconds per step", title="a step on the same 64 places", ylim=(0.0, None))
        x, y, _ = speed(rows, 0)
        look.say(axes[1], x + 0.6, y - 0.15, "PipelineRL", PIPELINE["color"])
        look.say(axes[1], 4.2, 2.4, "conventional", CONVENTIONAL["color"])
        size = {int(row.steps): float(row.value) for row in _script.pick(rows, part="ess").itertuples()}
        draw_lag(axes[2], rows, "ess", size.__getitem__)
        axes[2].set(ylabel="ESS / samples", title="effective samples (ESS), graded", ylim=(0.0, 1.03))
        draw_learning(axes[3], rows)
        figure.suptitle(title(rows), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Prediction's error, speeds, effective samples, and how much sooner a return is there."""
    stairs = _script.pick(rows, part="stairs").groupby(["sigma", "place"]).value.mean().reset_index()
    off = max(abs(row.value - predicted(row.sigma, np.array([row.place]))[0]) for row in stairs.itertuples())
    lag, seconds, _ = speed(rows, 0)
    steps = conventional(rows, "speed")
    size = {int(row.steps): float(row.value) for row in _script.pick(rows, part="ess").itertuples()}
    near = min(steps, key=lambda each: abs(speed(rows, each)[0] - lag))
    found = {"off": f"{off:.2f}", "lag": f"{lag:.1f}", "seconds": f"{seconds:.2f}"}
    found |= {"near_lag": f"{speed(rows, near)[0]:.1f}", "near_seconds": f"{speed(rows, near)[1]:.2f}"}
    found |= {"last_seconds": f"{speed(rows, steps[-1])[1]:.2f}"}
    found |= {"ess": f"{size[0]:.2f}", "near_ess": f"{size[near]:.2f}"}
    for task in TASKS:
        base, other = fastest(rows, task, 0), best(rows, task)
        found[f"{task}_pipeline"] = look.spread(base, 1)
        found[f"{task}_conventional"] = look.spread(other, 1)
    ratios = [sooner(rows, task, each) for task in TASKS for each in conventional(rows, "learning")]
    found |= {"all": str(len(ratios)), "sooner": str(sum(low > 1.0 for _, low, _ in ratios))}
    ends = [sooner(rows, task, int(best(rows, task).steps)) for task in TASKS]
    found["undecided"] = str(sum(low <= 1.0 <= high for _, low, high in ends))
    return found | {"tasks": str(len(TASKS)), "target": f"{pipeline_rl.TARGET:g}", "head": str(pipeline_rl.HEAD)}
