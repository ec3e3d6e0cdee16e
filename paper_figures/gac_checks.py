"""Under which conditions the checks let a staleness be read off gradients, and where it is wrong."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_reading import FOOLED, NAMES, passed

EXPERIMENTS = {"gac_alignment": {"part": "nulls", "task": "Gaussian bandit"}}


def draw_passed(ax: Axes, own: Any) -> None:
    """How many replicates pass the checks under each condition."""
    for line, row in enumerate(own.itertuples()):
        color = look.COLOR["muted" if row.value < 0.5 else "held" if row.right else "violated"]
        reach = [[max(row.value - max(row.low, 0.0), 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
        ax.plot([0.0, row.value], [-line, -line], color=color, linewidth=3.0, alpha=0.45)
        ax.errorbar(row.value, -line, xerr=reach, **{**_style.MEASURED, "color": color, "capsize": 0})
        if row.value >= 0.5:
            look.say(ax, 1.03, -line, "right staleness" if row.right else "wrong staleness", color)
    look.ticks(ax.yaxis, [-line for line in range(len(NAMES))], list(NAMES.values()))
    ax.set(xlim=(-0.01, 1.22), ylim=(0.5 - len(NAMES), 0.6), xlabel="replicates that pass the checks")
    look.ticks(ax.xaxis, (0.0, 0.25, 0.5, 0.75, 1.0))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw(rows: Any) -> Figure:
    """Passing replicates by condition."""
    with _style.applied():
        figure, own = _style.picture(_style.WIDTH, 3.2), passed(rows)
        draw_passed(figure.subplots(), own)
        blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
        shows = own.value["stale"] > 0.5 and own.right["stale"] and (own.value[blank] < 0.5).all()
        fake = own.value[FOOLED] > 0.5 and not own.right[FOOLED]
        words = "Only batches chosen to mislead pass the staleness checks with a wrong reading"
        title = _script.finding(shows and fake, words, "Where the checks let a staleness be read")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares that pass stand beside readings."""
    return {}
