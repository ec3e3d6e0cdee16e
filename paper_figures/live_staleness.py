"""Live runs of three systems beside what the event model predicts from their latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from asyncsim.plotting import _style
from experiments import live_staleness
from paper_figures import _script

EXPERIMENTS = {"live_staleness": {"task": "token bandit, CartPole, sums", "staleness": "measured", "pooled": True}}
MODES = {"waits": "slow generation (10 ms)", "none": "fast generation (no wait)"}
"""Panels: runs whose generation takes longer than messages, and all others."""
SYSTEMS = dict(
    zip(live_staleness.NAMES, ("update on arrival", "staleness capped (AReaL)", "one step off-policy"), strict=True)
)
MARKERS = dict(zip(live_staleness.NAMES, "os^", strict=True))
QUANTITIES = {
    "staleness": "mean staleness",
    "total variation": "staleness distribution\n(total variation)",
    "throughput": "throughput",
    "return": "return",
}
LOOK: dict[str, Any] = {"linestyle": "none", "markersize": 3.0, "alpha": 0.8}


def places(rows: Any) -> Any:
    """Where each measurement lies in its band: -1 and 1 are its ends, 0 its middle, also of a band of one number.

    Total variation has one end, 1; there is none at 0.
    """
    if (rows.quantity == "total variation").all():
        return (rows.measured / np.maximum(rows.high, 1e-12)).to_numpy()
    center, half = (rows.high + rows.low) / 2.0, (rows.high - rows.low) / 2.0
    off = (rows.measured - center).to_numpy()
    wide = half.to_numpy() > 1e-12
    return np.where(wide, off / np.where(wide, half, 1.0), np.where(np.abs(off) < 1e-9, 0.0, np.copysign(np.inf, off)))


def judged(rows: Any, mode: str) -> Any:
    """Rows of a panel: those that have a band."""
    return rows[rows.quantity.isin(list(QUANTITIES)) & ((rows["mode"] == "waits") == (mode == "waits"))]


def draw_panel(ax: Axes, rows: Any, mode: str) -> None:
    """A line for each quantity, a mark for each system; what lies outside of its band has another color."""
    own = judged(rows, mode)
    ax.axvspan(-1.0, 1.0, color=_style.COLORS["effect"], zorder=0)
    ax.axvline(0.0, **_style.PREDICTED)
    for y, quantity in enumerate(QUANTITIES):
        for shift, (system, marker) in zip((-0.24, 0.0, 0.24), MARKERS.items(), strict=True):
            each = _script.pick(own, quantity=quantity, system=system)
            spread = y + shift + np.linspace(-0.09, 0.09, len(each))
            for inside, color in ((True, "measured"), (False, "contrast")):
                chosen = (each.inside == inside).to_numpy(dtype=bool)
                ax.plot(places(each)[chosen], spread[chosen], color=_style.COLORS[color], marker=marker, **LOOK)
    ax.set(xlim=(-2.0, 2.0), ylim=(len(QUANTITIES) - 0.5, -0.5), xticks=range(-2, 3))
    ax.set(xlabel="(measured − predicted) / half width of the band")
    ax.set_title(f"{MODES[mode]}:\n{own.inside.sum():.0f} of {len(own)} values inside".capitalize())


def draw(rows: Any) -> Figure:
    """A panel for runs with waits, and one for all others."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.3)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, mode in zip(axes, MODES, strict=True):
            draw_panel(ax, rows, mode)
        axes[0].set_yticks(range(len(QUANTITIES)), QUANTITIES.values())
        marks: list[Any] = [
            Line2D([], [], marker=marker, label=SYSTEMS[system], **{**LOOK, "color": _style.INK})
            for system, marker in MARKERS.items()
        ]
        for color, words in (
            ("effect", "99 % band predicted from a run's latencies"),
            ("measured", "a run inside of its band"),
            ("contrast", "a run outside"),
        ):
            marks.append(Patch(color=_style.COLORS[color], label=words))
        slow, fast = (own.measured.between(own.low, own.high) for own in (judged(rows, mode) for mode in MODES))
        words = f"Predictions hold when generation is slow, and fail in {(~fast).sum()} of {len(fast)} values"
        words += " when it is fast"
        holds = len(slow) and slow.mean() > 0.98 and len(fast) and fast.mean() < slow.mean()
        title = _script.finding(holds, words, "Live runs beside the event model's predicted bands")
        order = [mark for pair in zip(marks[:3], marks[3:], strict=True) for mark in pair]
        figure.legend(handles=order, title=title, ncols=3, loc="outside upper left", alignment="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Values inside their bands by mode, runs, and load."""
    inside = {mode: judged(rows, mode).inside for mode in MODES}
    runs = rows[rows.quantity.isin(list(QUANTITIES))].groupby(["system", "mode"]).run.nunique().sum()
    load = f"{rows.load.min():.0f} to {rows.load.max():.0f}"
    return {mode: f"{own.sum():.0f} of {len(own)}" for mode, own in inside.items()} | {"runs": f"{runs}", "load": load}
