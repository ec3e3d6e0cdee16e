"""Update of the collapse times learning rate against staleness times rate: of linear gradients, and of GRPO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
        ax.plot(
            (own.staleness + 0.5) * own.rate, own["product"], style[task], markersize=3.0, color=COLOR[task], label=task
        )
    ax.set(xscale="log", yscale="log", xlim=(0.01, MOST), ylim=(1.0, 400.0), title=title)
    ax.set_xlabel("(staleness + ½) × learning rate")


def draw(rows: Any) -> Figure:
    """Linear gradients beside the prediction on the left, GRPO on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        draw_panel(left, rows, ("linear",), "Linear gradients (quadratic objective)")
        left.set_ylabel("updates until collapse × learning rate")
        limit, constant = stale_constant(), drift_constant()
        left.plot([1e-2, limit, limit], [constant, constant, 1.0], **_style.PREDICTED)
        look.say(left, 0.75, 8.0, "unstable: predicted\ncollapse at once", COLOR["linear"], ha="right")
        draw_panel(right, rows, ("tokens", "bandit"), "GRPO trained on a proxy (a flawed reward)")
        for task, y, name in (("tokens", 2.8, "sequences of 8 tokens"), ("bandit", 10.5, "bandit")):
            look.say(right, 0.015, y, name, COLOR[task])
        spread = {}
        for task in ARMS:
            own = times(rows, task)["product"]
            third = max(1, len(own) // 3)
            spread[task] = own.iloc[-third:].median() / own.iloc[:third].median()
        holds = spread["linear"] < 1.3 and min(spread["tokens"], spread["bandit"]) > 1.5
        words = "Collapse time × learning rate is constant for linear gradients, but grows with staleness for GRPO"
        title = _script.finding(holds, words, "Time to collapse times learning rate")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        said = (
            "one mark: one learning rate and staleness (median over seeds)",
            "collapse: the true return has lost half of its largest gain",
        )
        figure.legend([Line2D([], [], linestyle="none")] * 2, said, ncols=2, title=title, handlelength=0.0, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Limits and times stand beside the largest stable rates."""
    return {}
