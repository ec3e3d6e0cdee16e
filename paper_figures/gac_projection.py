"""Removing the aligned component before Adam, behind it, and in plain descent: size of step, stability, and regret."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from asyncsim.plotting import _style
from paper_figures import _gac_projection as _rows
from paper_figures import _script
from paper_figures._gac_projection import BEHIND, PLAIN, boundary, only, restored, shrunk, table

EXPERIMENTS = ("gac_projection",)
STALE, CONTROLLED, TUNED = (_style.COLORS[name] for name in ("stale", "controlled", "tuned"))
PARTIAL, SYNCHRONOUS, MUTED = (_style.COLORS[name] for name in ("partial", "synchronous", "muted"))
LOOKS: dict[str, dict[str, Any]] = {
    "none": {"color": STALE, "marker": "o"},
    "before": {"color": CONTROLLED, "marker": "s"},
    "behind": {"color": CONTROLLED, "marker": "D", "mfc": "none"},
    "behind without momentum": {"color": PARTIAL, "marker": "^"},
    "half": {"color": PARTIAL, "marker": "^"},
    "applied": {"color": CONTROLLED, "marker": "v", "mfc": "none"},
    "raw": {"color": CONTROLLED, "marker": "s"},
    "behind, default": {"color": MUTED, "marker": "x"},
}
"""Look of each arm; markers tell apart what has one color."""
INK = _style.INK
LABEL = {"fontsize": 6.8}
CONTROL = {"color": CONTROLLED, **LABEL}


def points(ax: Axes, x: Any, own: Any, look: dict[str, Any], **more: Any) -> None:
    """Measured points with their intervals."""
    reach = np.abs([own.value - own.low, own.high - own.value]).astype(float)
    x, y = np.asarray(x, dtype=float), own.value.to_numpy(dtype=float)
    ax.errorbar(x, y, yerr=reach, **{**_style.MEASURED, **look, **more})


def lags(ax: Axes, rows: Any, room: float = 1.5) -> None:
    """The staleness axis, with room for labels behind the largest."""
    shown = sorted({int(lag) for lag in rows.staleness})
    ax.set_xscale("function", functions=(np.log1p, np.expm1))
    ax.set(xlim=(-0.12, room * max(shown) + 2), xticks=shown, xlabel=r"staleness $\tau$ (updates)")
    ax.xaxis.set_minor_locator(NullLocator())


def draw_shares(ax: Axes, own: Any, arms: tuple[str, ...], dashed: tuple[str, ...]) -> None:
    """Measured shares of the step on their predictions, over the signal."""
    signals = np.geomspace(own.signal.min(), own.signal.max(), 60)
    curves = shrunk(own, signals)
    for arm in dashed:
        ax.plot(signals, curves[arm], **_style.PREDICTED)
    for arm in arms:
        mine = own[own.arm == arm]
        points(ax, mine.signal, mine, LOOKS[arm])
    ax.set_xscale("log")
    ax.set(xlabel="signal energy / noise energy of one gradient", xlim=(0.6 * own.signal.min(), 1.6 * own.signal.max()))
    ax.axhline(1.0, color=MUTED, linewidth=0.6)


def draw_known(ax: Axes, rows: Any) -> None:
    """Half of a known direction removed: the law of the paper and where it ends."""
    own = only(rows, "shrinkage", reference="known")
    spread = int(own.dimension.max())
    draw_shares(ax, own[own.dimension == 1], ("before",), ("before",))
    draw_shares(ax, own[own.dimension == spread], ("before", BEHIND + PLAIN), ("before", BEHIND + PLAIN))
    ax.set(ylim=(0.3, 1.16), ylabel="step along the old direction\n(share of the step without control)")
    ax.text(0.008, 1.04, "before Adam, direction is one coordinate: undone", **CONTROL)
    ax.text(0.9, 0.86, f"before Adam,\nspread over {spread}", ha="right", va="top", **CONTROL)
    ax.text(0.008, 0.42, "behind Adam: half, as intended", color=PARTIAL, **LABEL)


def draw_previous(ax: Axes, rows: Any) -> None:
    """All of what is parallel to the previous gradient removed."""
    own = only(rows, "shrinkage", reference="previous")
    draw_shares(ax, own, ("before", BEHIND + PLAIN, BEHIND), ("before", BEHIND + PLAIN))
    ax.set_yscale("log")
    ax.set(ylim=(1e-4, 4.0), ylabel="step along the old direction\n(share, logarithmic)")
    ax.text(3.6, 0.5, "before Adam", **CONTROL)
    ax.text(2.6, 0.07, "behind Adam,\nno momentum", color=PARTIAL, ha="right", va="center", **LABEL)
    ax.text(
        0.009,
        2e-3,
        "behind Adam with\nmomentum 0.9: nearly\nall signal is removed",
        color=CONTROLLED,
        va="top",
        **LABEL,
    )


def draw_boundary(ax: Axes, rows: Any) -> None:
    """Where plain descent carries a mode away."""
    own = only(rows, "boundary")
    every = np.arange(0, int(own.staleness.max()) + 1)
    ax.plot(every, [boundary(int(tau)) for tau in every], **_style.PREDICTED)
    for reference in ("raw", "applied"):
        ax.plot(every[1:], [restored(int(tau), reference) for tau in every[1:]], **_style.PREDICTED)
    for arm in ("none", "half", "applied", "raw"):
        mine = own[own.arm == arm]
        points(ax, mine.staleness, mine, LOOKS[arm])
    ax.set_yscale("log")
    lags(ax, own)
    ax.set(ylim=(0.03, 9.0), yticks=[0.05, 0.1, 0.2, 0.5, 1, 2, 5], ylabel=r"largest stable step $\times$ curvature")
    ax.set_yticklabels(["0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.text(0.5, 2.7, "all removed (squares): 2, as without staleness;\nit takes the previous raw gradient", **CONTROL)
    ax.text(4.4, 0.9, "against the previous step\n(hollow): as at half the staleness", va="center", **CONTROL)
    ax.text(12.5, 0.33, "half removed (filled)", color=PARTIAL, **LABEL)
    ax.text(0.3, 0.4, "no control\n(circles)", color=STALE, va="top", **LABEL)


def draw_amplitude(ax: Axes, rows: Any) -> None:
    """What is left of a mode under Adam."""
    own = only(rows, "amplitude")
    every = np.arange(0, int(own.staleness.max()) + 1)
    ax.plot(every, [1.0 / boundary(int(tau)) for tau in every], **_style.PREDICTED)
    for arm in ("none", "before", "behind"):
        filled = LOOKS["behind without momentum" if arm == BEHIND else arm]
        for name, look in ((arm + PLAIN, filled), (arm, {**LOOKS[arm], "mfc": "none"})):
            mine = own[own.arm == name]
            points(ax, mine.staleness, mine, look)
    ax.set_yscale("log")
    lags(ax, own, 3.4)
    ax.set(ylim=(0.008, 110.0), ylabel="size of the oscillation\n(root mean square, Adam steps)")
    ax.text(-0.05, 30.0, "no control (circles); behind\nAdam, no momentum (triangles)", color=STALE, **LABEL)
    ends = own[own.staleness == own.staleness.max()].set_index("arm").value
    ax.text(1.2 * every[-1] + 1, 0.8 * ends["before"], "before\nAdam", va="bottom", **CONTROL)
    ax.text(1.2 * every[-1] + 1, 1.4 * ends[BEHIND], "behind\nAdam, with\nmomentum", va="top", **CONTROL)
    ax.text(
        0.4, 0.012, "hollow: with momentum 0.9\ndashed: Adam scaled to the stability boundary", color=MUTED, **LABEL
    )


def draw_regret(ax: Axes, rows: Any) -> None:
    """Final regret against Adam's step size at the largest staleness, beside synchronous."""
    own = only(rows, "regret")
    largest = int(own.staleness.max())
    line = {"linestyle": "-", "linewidth": 0.9}
    mine = own[(own.arm == "none") & (own.staleness == 0)]
    points(ax, mine.step, mine, {"color": SYNCHRONOUS, "marker": "P"}, **line)
    for arm in ("none", "before", "behind", "behind, default"):
        mine = own[(own.arm == arm) & (own.staleness == largest)]
        points(ax, mine.step, mine, LOOKS[arm], **line)
    ax.axhline(1.0, color=MUTED, linewidth=0.6)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set(ylim=(2.5e-3, 60.0), xlabel="Adam's step size", ylabel="final regret (share of the initial)")
    ax.text(0.07, 9.0, f"staleness {largest},\nno control", color=STALE, ha="right", **LABEL)
    ax.text(0.22, 3.0, "before Adam", **CONTROL)
    ax.text(0.5, 0.014, "behind\nAdam", va="top", ha="center", **CONTROL)
    ax.text(5.2, 15.0, "behind Adam,\ndefault\nthresholds", color=MUTED, ha="right", **LABEL)
    ax.text(0.045, 0.0035, "synchronous,\nno control", color=SYNCHRONOUS, **LABEL)


def draw_staleness(ax: Axes, rows: Any) -> None:
    """Regret over staleness at one step that is too large for all, and at the best step of each."""
    large = table(rows, dict.fromkeys(("none", "before", "behind"), False))
    tuned = table(rows, dict.fromkeys(("none", "before", "behind"), True))
    for kept, style in ((large, "-"), (tuned, ":")):
        for arm in ("none", "before", "behind"):
            mine = kept[kept.arm == arm]
            retuned = {"color": TUNED, "marker": "P"} if arm == "none" and kept is tuned else LOOKS[arm]
            points(ax, mine.staleness, mine, retuned, linestyle=style, linewidth=0.9)
    ax.set_yscale("log")
    lags(ax, large)
    ax.set(ylim=(2.5e-3, 60.0), ylabel="final regret (share of the initial)")
    ax.text(0.0, 4.0, "solid: one step for all, four times\nthe best synchronous one", color=INK, **LABEL)
    ax.text(0.0, 0.95, "behind Adam (diamonds)", **CONTROL)
    ax.text(4.0, 0.16, "no control", color=STALE, ha="right", **LABEL)
    ax.text(11.0, 0.075, "before Adam", va="top", **CONTROL)
    ax.text(0.0, 0.0033, "dotted: best step of each; no control in purple", color=TUNED, **LABEL)


def draw(rows: Any) -> Figure:
    """Six panels: sizes of steps, stability, regret."""
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.4)
        axes = figure.subplots(3, 2).ravel()
        panels = (draw_known, draw_previous, draw_boundary, draw_amplitude, draw_regret, draw_staleness)
        titles = (
            "Half of a known direction removed",
            "All that consecutive gradients share removed",
            "Plain descent: which steps stay bounded?",
            "Adam does not diverge, it oscillates",
            "Behind Adam: a smaller step in disguise",
            "No control beats a smaller step",
        )
        for letter, ax, panel, title in zip("abcdef", axes, panels, titles, strict=True):
            panel(ax, rows)
            ax.set_title(f"{letter}  {title}")
        _script.caption(
            figure,
            "Alignment control removes from a gradient what it shares with the one before. Varied: whether this is",
            "done before Adam (on gradients) or behind it (on steps). (a, b) How much of the step along the old",
            "direction is left, against how clear the signal is. (c, d) Gradients τ updates old: the largest step",
            "that stays bounded, and how far Adam swings. (e, f) What it is worth: regret of a bandit.",
            "Dashed: predicted, not fitted. Intervals: 95 % (c: bracket).",
        )
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    return _rows.share_numbers(rows) | _rows.stability_numbers(rows) | _rows.regret_numbers(rows)
