"""Seconds of agentic rollouts against spare environments, as more groups or as larger groups."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import roll_sizes
from paper_figures import _roll_sizes as shared
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.roll_agents import SLOW, spared

EXPERIMENTS = {"roll_sizes": {"part": "environments", "task": "trajectories of 5 turns (timing only)"}}
USES = {
    "groups": ("spare groups: more groups of 8", shared.NEW),
    "samples": ("larger groups: more than 8 per group", shared.OTHER),
}
FAILURES = {"": "2 % of single environments hang", ", slow groups": "2 % of entire groups are slow"}
"""What goes wrong, by the end of an arm's name."""


def draw_spare(ax: Axes, rows: Any, failure: str) -> None:
    """Seconds against spare environments, by their use."""
    for use, (_, style) in USES.items():
        own = shared.fastest(rows, "environments", use + failure)
        shared.line(ax, own.x, own, **style)
    look.ticks(ax.xaxis, roll_sizes.SPARES)
    ax.set(xlabel="spare environments", ylim=(0.0, None), title=FAILURES[failure])


def draw(rows: Any) -> Figure:
    """A panel for each kind of failure."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, failure in zip(axes, FAILURES, strict=True):
            draw_spare(ax, rows, failure)
        axes[0].set_ylabel("seconds until 32 groups\nof 8 are complete")
        look.below(figure, [Line2D([], [], label=name, **look.CONNECTED, **style) for name, style in USES.values()])
        split = spared(rows, "groups", "samples")["high"] < 1.0 < spared(rows, *SLOW)["low"]
        _script.headline(figure, split, "Seconds of agentic rollouts by spare environments")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Seconds stand beside speeds by latency."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether spare groups are faster than larger groups, by failure and number of spare environments."""
    found = []
    for failure, name in (("", "environments hang"), (", slow groups", "entire groups are slow")):
        for more in roll_sizes.SPARES[1:]:
            own = spared(rows, f"groups{failure}", f"samples{failure}", more)
            faster = decided(own["low"] > 1.0, own["high"] < 1.0)
            found.append(Setting((f"{name}, spare environments", str(more)), faster, bool(failure)))
    return {"groups": found}
