"""What TBA gains from recent samples over samples of any age, where rewards are rare and where they are graded."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import tba_returns as experiment
from paper_figures import _vcpo as look
from paper_figures import tba_returns
from paper_figures._script import finding

EXPERIMENTS = {"tba_returns": {"part": "recency"}}
TASKS = {"rare": "rarely rewarded", "graded": "graded"}


def draw(rows: Any) -> Figure:
    """A line for each task and number of searchers."""
    with _style.applied():
        figure, names, gains, alike = _style.picture(_style.WIDTH, 2.3), [], [], []
        ax = figure.subplots()
        for y, (task, searchers) in enumerate(tba_returns.RECENT):
            row = tba_returns.cell(rows, task, searchers, "0.95", "recency")
            names.append(f"{TASKS[task]},\n{searchers} generator" + "s" * (searchers != "1"))
            if row is not None and isinstance(row.word, str):
                own = row.to_frame().T.infer_objects().rename(columns={"difference": "value"})
                look.points(ax, [y], own, sideways=True, color=look.COLOR["controlled"], marker="^")
                gains += [row.low] * (task == "rare")
                alike += [max(-row.low, row.high)] * (task == "graded")
        ax.set(
            ylim=(len(names) - 0.4, -0.6),
            xlabel="mean return with recent samples minus mean return with samples of any age",
        )
        look.ticks(ax.yaxis, range(len(names)), names)
        words = "Recent samples help trajectory balance (TBA) on rarely rewarded bits, but not on graded tokens"
        holds = min(gains, default=0.0) > 0.0 and max(alike, default=1.0) < experiment.SMALLEST
        title = finding(holds, words, "Trajectory balance (TBA) on recent samples beside samples of any age")
        look.legend(figure, [ax], {}, experiment.SMALLEST, title)
        figure.legends[0].texts[0].set_text(f"counted as equal: within ±{experiment.SMALLEST:g}")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Gains stand beside returns."""
    return {}
