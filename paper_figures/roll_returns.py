"""Return at the end of ROLL Flash's off-policy methods on asynchronous data − that of synchronous training."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league, token_ratios
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.token_ratios import compared

EXPERIMENTS = {"token_ratios": {"part": "par"}}
RATIOS: dict[int, dict[str, Any]] = {
    2: {"color": look.COLOR["controlled"], "marker": "o"},
    8: {"color": look.COLOR["stale"], "marker": "s"},
}
REACH = 0.03


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """A line for each method, a mark for each asynchronous ratio."""
    for side, (ratio, style) in zip((-0.14, 0.14), RATIOS.items(), strict=True):
        own = _script.pick(compared(rows, "par"), task=task, ratio=ratio)
        places = [list(token_ratios.METHODS).index(arm) + side for arm in own.arm]
        look.points(ax, places, own, sideways=True, **style)
    ax.set(ylim=(len(token_ratios.METHODS) - 0.5, -0.5), xlim=(-REACH, REACH), title=task)
    small = league.SMALLEST
    look.ticks(ax.xaxis, (-small, 0.0, small), (f"−{small:g}", "0", f"{small:g}"))
    look.ticks(ax.yaxis, range(len(token_ratios.METHODS)), list(token_ratios.METHODS))


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, len(league.TASKS), sharey=True)
        for ax, task in zip(axes, league.TASKS, strict=True):
            draw_task(ax, rows, task)
        axes[1].set_xlabel("return at the end minus that of synchronous training")
        looks = {f"asynchronous ratio {ratio}": style for ratio, style in RATIOS.items()}
        own = compared(rows, "par")
        words = f"At the end of training, asynchronous return equals synchronous return within {league.SMALLEST:g}"
        par = (own.word == "equal").all()
        title = _script.finding(par, words, "Return at the end of asynchronous training")
        look.legend(figure, axes, looks, league.SMALLEST, title)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many comparisons are equal, and the largest difference."""
    own = compared(rows, "par")
    found = {"equal": str(int((own.word == "equal").sum())), "judged": str(len(own))}
    found |= {"smallest": f"{league.SMALLEST:g}"}
    found["most"] = f"{own.difference.abs().max():.3f}"

    return found
