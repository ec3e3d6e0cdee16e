"""Five effective sample sizes against staleness and batch size, beside what stale samples are worth to the gradient."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import ess_five
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("ess_five",)
STYLES: dict[str, dict[str, Any]] = {
    "token": {"color": look.COLOR["partial"], "marker": "v"},
    "truncated": {"color": look.COLOR["tuned"], "marker": "D"},
    "sequence": {"color": look.COLOR["measured"], "marker": "o"},
    "population": {"color": look.COLOR["muted"], "marker": "s", **look.HOLLOW},
    "log": {"color": look.COLOR["contrast"], "marker": "^"},
}


def draw_task(ax: Axes, rows: Any, task: str) -> None:
    """Sizes over what the samples are worth, against staleness; 1 would be right."""
    own = rows[(rows.task == task) & (rows.batch == ess_five.BATCH)].sort_values("staleness")
    for name, style in STYLES.items():
        one = own[own["size"] == name]
        shown = one.assign(value=one.off)
        look.points(ax, one.staleness, shown, **look.CONNECTED, **{"markersize": 3.5, **style})
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", ylim=(0.003, 2.0), xlabel="staleness, updates")
    ax.set_title(f"{task}, {ess_five.BATCH} in a batch")
    look.ticks(ax.xaxis, sorted(own.staleness.unique()))


def draw_batches(ax: Axes, rows: Any) -> None:
    """Sizes of the stalest graded data over the population's, against the batch."""
    late = rows[(rows.task == "graded") & (rows.staleness == rows.staleness.max())]
    base = float(late[late["size"] == "population"].off.iloc[0])
    for name, style in STYLES.items():
        one = late[late["size"] == name].sort_values("batch")
        ax.plot(one.batch, one.off / base, markersize=3.5, **look.CONNECTED, **style)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel="sequences in a batch", ylabel="ESS / that of infinite data")
    ax.set_title(f"graded at staleness {int(rows.staleness.max())}")
    look.ticks(ax.xaxis, sorted(late.batch.dropna().unique()))


def draw(rows: Any) -> Figure:
    """A panel for each task, one for the batch."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 4.8)
        axes = figure.subplots(2, 2).ravel()
        for ax, task in zip(axes, ess_five.TASKS, strict=False):
            draw_task(ax, rows, task)
            ax.set_ylabel("ESS per sample / its worth")
        draw_batches(axes[3], rows)
        marks = [Line2D([], [], label=name, **look.CONNECTED, **style) for name, style in STYLES.items()]
        late = rows[(rows.staleness == rows.staleness.max()) & (rows.batch == ess_five.BATCH)]
        under = late[late["size"].isin(list(STYLES))].off < 1.0
        words = "Effective sample sizes undercount what stale samples are worth to the gradient"
        title = _script.finding(under.mean() > 0.9, words, "Effective sample sizes over what samples are worth")
        figure.legend(handles=marks, loc="outside upper left", ncols=len(marks), title=title, alignment="left")
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
