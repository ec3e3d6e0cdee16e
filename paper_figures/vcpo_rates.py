"""Final return on the oldest data at multiples of the learning rate, with graded and with pass-or-fail rewards."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._vcpo_training import rates as numbers

__all__ = ["EXPERIMENTS", "draw", "numbers"]

PAID = "1 if 20 of 32 bits are correct, with noise"
EXPERIMENTS = {"vcpo_training": {"part": "end", "problem": ("graded", "noisy"), "optimizer": "adam", "staleness": 128,
                                 "names": {"noisy": "pass or fail"}, "means": {"pass or fail": PAID}}}  # fmt: skip
ARMS = {"truncated": look.TRUNCATED, "vcpo": look.VCPO}
TASKS = {
    "graded": ("Noisy graded rewards", ""),
    "noisy": ("Noisy pass or fail", ": VCPO is better only at twice the rate"),
}
"""A problem, and where VCPO ends higher, if it does and the heading does not say so."""


def last(ends: Any) -> Any:
    """Final returns at the largest staleness, at the last end that is read."""
    own = ends[(ends.optimizer == "adam") & (ends.staleness == ends.staleness.max()) & (ends.quantity == "final")]
    return own[own.horizon == own.groupby("factor").horizon.transform("max")]


def shows(ends: Any, problem: str) -> bool:
    """Whether VCPO ends higher at every rate, or, of the other problem, at the boldest one alone."""
    own = last(ends[ends.problem == problem])
    low, high = (own[own.arm == arm].set_index("factor") for arm in ("vcpo", "truncated"))
    higher = (low.low > high.high).sort_index()
    return bool(higher.all() if problem == "graded" else higher.loc[2.0] and not higher.drop(2.0).any())


def draw_factors(ax: Axes, ends: Any) -> None:
    """Final return of both arms of a problem at multiples of the learning rate."""
    own = last(ends)
    for arm, side in (("truncated", 0.97), ("vcpo", 1.03)):
        part = own[own.arm == arm].sort_values("factor")
        look.points(ax, part.factor * side, part, **ARMS[arm], **look.CONNECTED)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set_xscale("log", base=2)
    look.ticks(ax.xaxis, sorted(own.factor.unique()))
    ax.set(ylim=(0, 1.08), xlabel="learning rate / best synchronous learning rate")


def draw(rows: Any) -> Figure:
    """Both problems side by side."""
    ends = rows[rows.part == "end"]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, (problem, (name, where)) in zip(axes, TASKS.items(), strict=True):
            draw_factors(ax, ends[ends.problem == problem])
            ax.set_title(_script.finding(shows(ends, problem), name + where, name))
        _script.headline(figure, shows(ends, "graded"), "Final return by learning rate, noisy rewards")
        axes[0].set_ylabel(
            f"return at staleness {int(ends.staleness.max())}\n({int(ends.horizon.max())} updates; best: 1)"
        )
        look.say(axes[0], 2.2, 0.9, "VCPO", look.COLOR["controlled"])
        look.say(axes[0], 0.5, 0.42, "truncated IS", look.TRUNCATED["color"])
    return figure
