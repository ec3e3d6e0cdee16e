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


def draw(rows: Any) -> Figure:
    """A line for each task and number of searchers."""
    with _style.applied():
        figure, names, gains = _style.picture(_style.WIDTH, 1.9), [], []
        ax = figure.subplots()
        for y, (task, searchers) in enumerate(tba_returns.RECENT):
            row = tba_returns.cell(rows, task, searchers, "0.95", "recency")
            names.append(f"{tba_returns.TITLES[task]}, {searchers} searcher" + "s" * (searchers != "1"))
            if row is not None and isinstance(row.word, str):
                own = row.to_frame().T.infer_objects().rename(columns={"difference": "value"})
                look.points(ax, [y], own, sideways=True, color=look.COLOR["controlled"], marker="^")
                gains += [row.low] * (task == "rare")
        ax.set(ylim=(len(names) - 0.4, -0.6), xlabel="return on recent samples − return on samples of any age")
        look.ticks(ax.yaxis, range(len(names)), names)
        words = "Recent samples help TBA where rewards are rare"
        title = finding(len(gains) and min(gains) > 0.0, words, "TBA on recent samples beside samples of any age")
        look.legend(figure, [ax], {}, experiment.SMALLEST, title)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Gains stand beside returns."""
    return {}
