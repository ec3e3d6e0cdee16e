"""Effective sample sizes against staleness, divided by what stale samples are worth to the gradient."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import ess_five
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"ess_five": {"rate": "0.05"}}
STYLES: dict[str, dict[str, Any]] = {
    "token": {"color": look.COLOR["partial"], "marker": "v"},
    "sequence": {"color": look.COLOR["measured"], "marker": "o"},
    "log": {"color": look.COLOR["contrast"], "marker": "^"},
}
"""The sizes that are drawn."""
NAMES = {"token": "ESS of tokens", "sequence": "ESS of sequences", "log": "exp(−variance of\nlog ratios)"}


def draw_task(ax: Axes, rows: Any, task: str) -> dict[str, tuple[float, str]]:
    """Sizes divided by what the samples are worth, against staleness; 1 would be right. Where lines end."""
    own = rows[(rows.task == task) & (rows.batch == ess_five.BATCH)].sort_values("staleness")
    names = {"1: ESS is right": (1.0, look.COLOR["muted"])}
    for name, style in STYLES.items():
        one = own[own["size"] == name]
        shown = one.assign(value=one.off)
        look.points(ax, one.staleness, shown, **look.CONNECTED, **{"markersize": 3.5, **style})
        names[NAMES[name]] = (float(one.off.iloc[-1]), style["color"])
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", ylim=(0.003, 2.0), xlabel="staleness (versions)", title=task)
    look.ticks(ax.xaxis, sorted(own.staleness.unique()))
    return names


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        tasks = [task for task in ess_five.TASKS if (rows.task == task).any()]
        axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
        names = [draw_task(ax, rows, task) for ax, task in zip(axes, tasks, strict=True)]
        axes[0].set_ylabel("(ESS / samples) divided by (gradient\nvariance of fresh / of stale data)")
        look.ends(axes[-1], names[-1], gap=0.12)
        late = rows[(rows.staleness == rows.staleness.max()) & (rows.batch == ess_five.BATCH)]
        under = late[late["size"].isin(list(STYLES))].off < 1.0
        words = "Effective sample sizes (ESS) undercount how precise a gradient of stale samples is"
        title = _script.finding(
            under.mean() > 0.9, words, "Effective sample sizes (ESS) beside the gradient's variance"
        )
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What stale samples are worth, and how far every size is off, where they are least and most stale."""
    late, near = int(rows.staleness.max()), int(rows.staleness.min())
    worth = rows[(rows["size"] == "truth") & (rows.staleness == late)].set_index("task").value
    found = {"late": str(late), "near": str(near)} | {f"worth_{task}": f"{worth[task]:.1f}" for task in ess_five.TASKS}
    own = rows[rows.batch == ess_five.BATCH]
    for name in ("sequence", "token", "log"):
        one = _script.pick(own, size=name, staleness=late).set_index("task").off
        found |= {f"{name}_{task}": f"{one[task]:.2g}" for task in ess_five.TASKS}
    fresh = own[own.staleness == near].off
    return found | {"near_off": f"{fresh.min():.2f}"}
