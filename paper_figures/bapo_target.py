"""What BAPO's target does to its bounds over updates and to the return."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.bapo_bounds import BOUNDS, bounds, swept, task

EXPERIMENTS = {"bapo_steps": {"part": "knob", "task": "long", "rate": "best synchronous"}}
TARGETS = {"bapo": ("0.4", {}), "half": ("0.5", look.HOLLOW)}
"""Arms by their target."""
SIDES = {"low": ("lower", BOUNDS["c_low"]), "high": ("upper", BOUNDS["c_high"])}


def draw_course(ax: Axes, rows: Any) -> None:
    """Both bounds over updates; hollow at the larger target."""
    name, names = task(rows), {}
    for side, (word, style) in SIDES.items():
        for arm, (target, more) in TARGETS.items():
            own = bounds(rows, name, arm, side)
            look.points(ax, own.number, own, **look.CONNECTED, **{**style, **more, "markersize": 3.0, "capsize": 1.0})
            names[f"{word}, target {target}"] = (float(own.value.iloc[-1]), style["color"])
    ax.set(xlabel="update", ylabel="bound on the importance ratio", ylim=(0.0, None), title="Bounds chosen by BAPO")
    look.ends(ax, names, gap=0.085)


def draw_target(ax: Axes, rows: Any) -> None:
    """Return against BAPO's target."""
    own = swept(rows, task(rows), "rho_0", "mean")
    ax.plot(own.number, own.value, color=steps.ARMS["bapo"]["color"], **look.CONNECTED)
    for part, more in ((own[own.number < 0.5], {}), (own[own.number >= 0.5], look.HOLLOW)):
        look.points(ax, part.number, part, **{**steps.ARMS["bapo"], **more})
    ax.set(xlabel="target: share of the loss from positive advantages", ylim=(0.0, None))
    ax.set(ylabel="mean return over training", title="Return by target")


def draw(rows: Any) -> Figure:
    """Bounds over updates; return against the target."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.1))
        draw_course(left, rows)
        draw_target(right, rows)
        name, own = task(rows), swept(rows, task(rows), "rho_0", "mean").set_index("number")
        still, moved = (bounds(rows, name, arm, "high").value for arm in TARGETS)
        gains = 0.4 in own.index and 0.5 in own.index and own.low[0.5] > own.high[0.4]
        holds = still.max() < still.min() + 0.01 and moved.max() > moved.min() + 0.5 and gains
        _script.headline(figure, holds, "BAPO's bounds and return by its target")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Readings stand beside fixed bounds."""
    return {}
