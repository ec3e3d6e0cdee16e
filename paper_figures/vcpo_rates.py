"""Final return on the oldest data at multiples of the learning rate, with graded and with pass-or-fail rewards."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _vcpo as look
from paper_figures._vcpo_training import rates as numbers

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = ("vcpo_training",)
ARMS = {"truncated": look.TRUNCATED, "vcpo": look.VCPO}
TASKS = {"graded": "Graded: VCPO ends higher at every rate", "noisy": "Pass or fail: alike but for twice the rate"}


def draw_factors(ax: Axes, ends: Any) -> None:
    """Final return of both arms of a problem at multiples of the learning rate, at the last end that is read."""
    own = ends[(ends.optimizer == "adam") & (ends.staleness == ends.staleness.max()) & (ends.quantity == "final")]
    own = own[own.horizon == own.groupby("factor").horizon.transform("max")]
    for arm, side in (("truncated", 0.97), ("vcpo", 1.03)):
        part = own[own.arm == arm].sort_values("factor")
        look.points(ax, part.factor * side, part, **ARMS[arm], **look.CONNECTED)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, sorted(own.factor.unique()))
    ax.set(ylim=(0, 1.08), xlabel="learning rate / best synchronous rate")


def draw(rows: Any) -> Figure:
    """Both problems side by side."""
    ends = rows[rows.part == "end"]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.4)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, (problem, title) in zip(axes, TASKS.items(), strict=True):
            draw_factors(ax, ends[ends.problem == problem])
            ax.set_title(title)
        axes[0].set_ylabel(
            f"return at staleness {int(ends.staleness.max())}\n({int(ends.horizon.max())} updates; best: 1)"
        )
        look.say(axes[0], 2.2, 0.9, "VCPO", look.COLOR["controlled"])
        look.say(axes[0], 0.5, 0.42, "truncated IS", look.COLOR["stale"])
    return figure
