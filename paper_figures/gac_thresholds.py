"""Falls of GRPO under GAC against the cosine from which it projects, or skips a step."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_cosine import LATE, LEVELS, swept
from paper_figures.gac_steps import points

EXPERIMENTS = {"gac_steps": {"part": "threshold", "rate": 0.2}}


def draw_thresholds(ax: Axes, rows: Any) -> None:
    """Falls of GAC on GRPO against both thresholds."""
    for skips, color, name in ((False, "controlled", "project"), (True, "contrast", "skip")):
        for level, marker in LEVELS.items():
            own = swept(rows, level, "fell", skips)
            if len(own):
                x = own.high if skips else own.low
                label = f"{name}, staleness {level}"
                points(ax, x, own, color=look.COLOR[color], marker=marker, label=label)
    look.shares(ax)
    ax.set(xlabel="cosine of consecutive gradients from which GAC acts (1: never)", ylabel="runs that fall")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw(rows: Any) -> Figure:
    """One panel, a line for each rule and staleness."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        draw_thresholds(figure.subplots(), rows)
        skipped, projected = swept(rows, LATE, "fell", True), swept(rows, LATE, "fell", False)
        better = skipped.value.min() < projected.value.min()
        words = f"On GRPO at staleness {LATE} skipping steps prevents falls, projecting does not"
        figure.suptitle(_script.finding(better, words, "Falls of GRPO under GAC"), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares of falls stand beside cosines in training."""
    return {}
