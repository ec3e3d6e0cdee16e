"""The largest stable learning rate of plain stale descent, without control and under projection."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures._gac_points import points
from paper_figures._gac_projection import boundary, only, restored
from paper_figures._vcpo import ends

EXPERIMENTS = {"gac_projection": {"quantity": "boundary", "task": "quadratic"}}
LOOK: dict[str, dict[str, Any]] = {
    "none": _methods.look("no projection"),
    "raw": _methods.look("projection"),
    "applied": _methods.look("projection", marker="D", markerfacecolor="white"),
}
LABEL = {
    "raw": "projection against\nthe last raw gradient",
    "applied": "projection against\nthe last applied gradient",
    "none": "no projection",
}
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2)


def measured(rows: Any, arm: str) -> Any:
    """Boundaries of an arm; control has one only where gradients are stale."""
    own = only(rows, "boundary", arm=arm)
    return own if arm == "none" else own[own.staleness > 0]


def shared_until(rows: Any) -> int:
    """The largest staleness at which projection against the applied gradient, too, restores the synchronous limit."""
    own = measured(rows, "applied")
    return max((int(tau) for tau in own[own.value > 0.95 * boundary(0)].staleness), default=0)


def draw(rows: Any) -> Figure:
    """Measured boundaries on predicted ones."""
    largest = int(only(rows, "boundary").staleness.max())
    every = np.arange(0, largest + 1)
    # An odd staleness is worth as much as the even one before it; a line through every one would be a staircase.
    even = [1, *range(2, largest + 1, 2)]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.7)
        ax = figure.subplots()
        ax.plot(every, [boundary(int(tau)) for tau in every], **_style.PREDICTED)
        for reference in ("raw", "applied"):
            ax.plot(even, [restored(tau, reference) for tau in even], **_style.PREDICTED)
        for arm, look in LOOK.items():
            points(ax, measured(rows, arm).staleness, measured(rows, arm), markersize=4.0, **look)
        ax.set_xscale("function", functions=(np.log1p, np.expm1))
        ax.set(yscale="log", ylim=(0.035, 3.0), yticks=TICKS, yticklabels=[f"{tick:g}" for tick in TICKS])
        ax.set(xlim=(-0.12, 1.1 * largest), xticks=sorted({int(tau) for tau in only(rows, "boundary").staleness}))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set(xlabel="staleness (versions)", ylabel="maximum stable\nlearning rate × curvature")
        last = {arm: float(measured(rows, arm).value.iloc[-1]) for arm in LOOK}
        ends(ax, {LABEL[arm]: (last[arm], look["color"]) for arm, look in LOOK.items()}, 0.14)
        ratio = measured(rows, "raw").value / boundary(0)
        until = shared_until(rows)
        own = measured(rows, "applied")
        only_raw = (ratio > 0.95).all() and own[own.staleness > until].value.max() < 0.6 * boundary(0)
        _script.headline(figure, only_raw, "Maximum stable learning rate, with and without projection")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Boundaries at the largest staleness, and the deviations from what is predicted."""
    own, off = only(rows, "boundary"), []
    largest = int(own.staleness.max())
    last = own[own.staleness == largest].set_index("arm").value
    for arm in LOOK:
        mine = measured(rows, arm)
        right = [boundary(int(tau)) if arm == "none" else restored(int(tau), arm) for tau in mine.staleness]
        off.append(np.abs(mine.value.astype(float) / right - 1.0).max())
    edges = {f"edge_{arm}": f"{last[arm]:.4f}" for arm in ("none", "applied", "raw")}
    return {"largest": f"{largest}", "beyond": f"{shared_until(rows)}", **edges, "off": f"{100.0 * max(off):.2f}"}
