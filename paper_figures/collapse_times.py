"""Update of the collapse times learning rate against staleness times rate: of linear gradients, and of GRPO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.step_limits import COLOR, MOST, drift_constant, products, stale_constant

EXPERIMENTS = {"step_limits": {"quantity": "time", "task": ("linear", "bandit", "tokens")}}
ARMS = {"linear": "gradient", "tokens": "grpo", "bandit": "grpo"}


def times(rows: Any, task: str) -> Any:
    """Products of a task, by staleness times rate."""
    return products(_script.pick(rows, quantity="time", task=task, arm=ARMS[task])).sort_values("drift")


def draw_panel(ax: Axes, rows: Any, tasks: tuple[str, ...], title: str) -> None:
    """A mark for each pair of staleness and rate: the median over runs."""
    for task in tasks:
        own, style = times(rows, task), {"tokens": "o", "bandit": "v", "linear": "o"}
        ax.plot(own.drift, own["product"], style[task], markersize=3.0, color=COLOR[task], label=task)
    ax.set(xscale="log", yscale="log", xlim=(0.01, MOST), ylim=(1.0, 400.0), title=title)
    ax.set(xlabel="staleness $S$ × learning rate", ylabel="update of the collapse × learning rate")


def draw(rows: Any) -> Figure:
    """Linear gradients beside the prediction on the left, GRPO on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        draw_panel(left, rows, ("linear",), "linear gradients")
        left.plot([2e-2, stale_constant()], [drift_constant()] * 2, **_style.PREDICTED)
        look.say(left, 0.3, 5.0, "collapse at once", COLOR["linear"])
        draw_panel(right, rows, ("tokens", "bandit"), "GRPO on proxies")
        for task, y in (("tokens", 2.6), ("bandit", 10.5)):
            look.say(right, 0.02, y, task, COLOR[task])
        spread = {}
        for task in ARMS:
            own = times(rows, task)["product"]
            third = max(1, len(own) // 3)
            spread[task] = own.iloc[-third:].median() / own.iloc[:third].median()
        holds = spread["linear"] < 1.3 and min(spread["tokens"], spread["bandit"]) > 1.5
        words = "Time to collapse × learning rate is constant for linear gradients, and rises for GRPO"
        title = _script.finding(holds, words, "Time to collapse times learning rate")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Limits and times stand beside the largest stable rates."""
    return {}
