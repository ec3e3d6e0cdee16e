"""Effective sample size against staleness, beside what stale samples are worth to the gradient."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import ess_five
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"ess_five": {"rate": "0.05"}}
ESS, WORTH = "ESS / samples", "measured worth"


def draw_task(ax: Axes, rows: Any, task: str) -> dict[str, tuple[float, str]]:
    """ESS of sequences and what the samples are worth, against staleness. Where lines end."""
    own = rows[rows.task == task].sort_values("staleness")
    truth, size = own[own["size"] == "truth"], own[(own["size"] == "sequence") & (own.batch == ess_five.BATCH)]
    # Intervals are those of the ratio of both.
    size = size.assign(low=size.value * size.low / size.off, high=size.value * size.high / size.off)
    ax.plot(truth.staleness, truth.value, marker="s", markersize=3.5, linewidth=0.9, color=look.COLOR["contrast"])
    look.points(ax, size.staleness, size, **look.CONNECTED, color=look.COLOR["measured"], markersize=3.5)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", ylim=(0.1, 50.0), xlabel="staleness (versions)", title=task)
    look.ticks(ax.xaxis, sorted(own.staleness.unique()))
    look.ticks(ax.yaxis, (0.1, 0.3, 1, 3, 10, 30))
    ends = {WORTH: (truth, "contrast"), ESS: (size, "measured")}
    return {name: (float(one.value.iloc[-1]), look.COLOR[color]) for name, (one, color) in ends.items()}


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        tasks = [task for task in ess_five.TASKS if (rows.task == task).any()]
        axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
        names = [draw_task(ax, rows, task) for ax, task in zip(axes, tasks, strict=True)]
        axes[0].set_ylabel("fresh samples that estimate the\ngradient as well as a stale one")
        look.ends(axes[-1], names[-1], gap=0.12)
        own = rows[(rows["size"] == "sequence") & (rows.batch == ess_five.BATCH)]
        most = rows[rows["size"] == "truth"].value.max()
        _script.headline(figure, most > 2.0 and (own.high < 1.0).all(), "ESS, and what stale samples are worth")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What stale samples are worth, and how far every size is off, where they are least and most stale."""
    late, near = int(rows.staleness.max()), int(rows.staleness.min())
    worth = rows[(rows["size"] == "truth") & (rows.staleness == late)].set_index("task").value
    found = {"late": str(late), "near": str(near)} | {f"worth_{task}": f"{worth[task]:.1f}" for task in ess_five.TASKS}
    found["most"] = f"{rows[rows['size'] == 'truth'].value.max():.0f}"
    own = rows[rows.batch == ess_five.BATCH]
    for name in ("sequence", "token"):
        one = _script.pick(own, size=name, staleness=late).set_index("task").off
        found |= {f"{name}_{task}": f"{one[task]:.2g}" for task in ess_five.TASKS}
    fresh = own[own.staleness == near].off
    return found | {"near_off": f"{fresh.min():.2f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the ESS of sequences is within a tenth of what the samples are worth, by task and staleness."""
    own = _script.pick(rows, size="sequence", batch=ess_five.BATCH).sort_values(["task", "staleness"])
    found = []
    for row in own.itertuples():
        near = decided(row.low >= 0.9 and row.high <= 1.1, row.high < 0.9 or row.low > 1.1)
        found.append(Setting((row.task, f"{row.staleness}"), near))
    return {"worth": found}
