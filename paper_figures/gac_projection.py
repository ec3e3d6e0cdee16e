"""Removing the aligned component before Adam, after it, and in plain descent: size of step, stability, and regret."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from asyncsim.plotting import _style
from paper_figures import _gac_projection as _rows
from paper_figures import _script
from paper_figures._gac_projection import BEHIND, MOMENTUM, PLAIN, boundary, only, restored, shrunk, swing, table

EXPERIMENTS = ("gac_projection",)
STALE, CONTROLLED, MUTED = (_style.COLORS[name] for name in ("stale", "controlled", "muted"))
PARTIAL, SYNCHRONOUS = (_style.COLORS[name] for name in ("partial", "synchronous"))
INK = _style.INK
LOOKS: dict[str, dict[str, Any]] = {
    "synchronous": {"color": SYNCHRONOUS, "marker": "P"},
    "none": {"color": STALE, "marker": "o"},
    "none" + PLAIN: {"color": STALE, "marker": "o", "mfc": "white"},
    "before": {"color": CONTROLLED, "marker": "s"},
    "before, one coordinate": {"color": CONTROLLED, "marker": "v", "markersize": 5.0},
    BEHIND: {"color": PARTIAL, "marker": "D"},
    BEHIND + PLAIN: {"color": PARTIAL, "marker": "D", "mfc": "white"},
    "raw": {"color": INK, "marker": "p", "markersize": 6.0},
    "applied": {"color": INK, "marker": "X", "markersize": 5.5},
}
"""Look of each arm: a color for each place of the control, hollow where Adam has no momentum."""
LABEL: dict[str, Any] = {"fontsize": 6.8}
BEFORE = {"color": CONTROLLED, **LABEL}
AFTER = {"color": PARTIAL, **LABEL}
NONE = {"color": STALE, **LABEL}
REMARK = {"color": MUTED, **LABEL}
TITLES = (
    "Adam partly undoes control before, not after",
    "After Adam with momentum, little is left",
    "Plain descent: control allows larger steps",
    "Adam: control calms the oscillation",
    "After Adam, the best step is {times} times larger, not better",
    "Staleness at a tuned step costs nothing here",
)


def points(ax: Axes, x: Any, own: Any, look: dict[str, Any], aside: float = 0.0, **more: Any) -> None:
    """Measured points with their intervals, moved sideways by so many points."""
    reach = np.abs([own.value - own.low, own.high - own.value]).astype(float)
    x, y = np.asarray(x, dtype=float), own.value.to_numpy(dtype=float)
    if aside:
        more["transform"] = ax.transData + ScaledTranslation(aside / 72.0, 0.0, ax.figure.dpi_scale_trans)
    ax.errorbar(x, y, yerr=reach, **{**_style.MEASURED, **look, **more})


def lags(ax: Axes, rows: Any, room: float = 1.3) -> None:
    """The staleness axis, with room for labels behind the largest."""
    shown = sorted({int(lag) for lag in rows.staleness})
    ax.set_xscale("function", functions=(np.log1p, np.expm1))
    ax.set(xlim=(-0.17, room * max(shown)), xticks=shown, xlabel=r"staleness $\tau$ (updates)")
    ax.xaxis.set_minor_locator(NullLocator())


def draw_shares(ax: Axes, own: Any, arms: dict[str, str], dashed: tuple[str, ...]) -> None:
    """Measured shares of the step of each arm with its look, on their predictions, over the signal."""
    signals = np.geomspace(own.signal.min(), own.signal.max(), 60)
    curves = shrunk(own, signals)
    for arm in dashed:
        ax.plot(signals, curves[arm], **_style.PREDICTED)
    for arm, look in arms.items():
        mine = own[own.arm == arm]
        points(ax, mine.signal, mine, LOOKS[look])
    ax.set_xscale("log")
    label = "energy of the mean gradient / energy of its noise"
    ax.set(xlabel=label, xlim=(0.6 * own.signal.min(), 1.6 * own.signal.max()))


def draw_known(ax: Axes, rows: Any) -> None:
    """Half of a known direction removed: the law of the paper and where it ends."""
    own = only(rows, "shrinkage", reference="known")
    spread, after = int(own.dimension.max()), BEHIND + PLAIN
    draw_shares(ax, own[own.dimension == 1], {"before": "before, one coordinate"}, ("before",))
    draw_shares(ax, own[own.dimension == spread], {"before": "before", after: after}, ("before", after))
    ax.set(ylim=(0.25, 1.2), ylabel="step along the mean gradient\n(1: as without control)")
    ax.text(0.008, 1.045, "before Adam, mean in one coordinate: all undone", **BEFORE)
    ax.text(0.6, 0.83, f"before Adam, mean\nspread evenly over\n{spread} coordinates", ha="right", va="top", **BEFORE)
    ax.text(0.008, 0.43, "after Adam, no momentum: half is left", **AFTER)
    ax.text(0.008, 0.265, "removed: half of the part along the mean;\nbefore Adam: momentum 0.9", **REMARK)


def draw_previous(ax: Axes, rows: Any) -> None:
    """All of what is parallel to the step before removed behind Adam, with and without momentum."""
    own = only(rows, "shrinkage", reference="previous")
    after = BEHIND + PLAIN
    draw_shares(ax, own, {after: after, BEHIND: BEHIND}, (after,))
    ax.set_yscale("log")
    ax.set(ylim=(4e-5, 4.0), ylabel="step along the mean gradient\n(1: as without control)")
    ax.text(0.009, 1.3, "after Adam, no momentum", va="bottom", **AFTER)
    ax.text(0.009, 0.008, "after Adam, momentum\n0.9 (no prediction)", va="top", **AFTER)
    remark = "removed: all that is parallel to Adam's step\nbefore; mean spread over"
    remark += f" {own.dimension.iloc[0]:.0f} coordinates"
    ax.text(0.008, 5e-5, remark, va="bottom", **REMARK)


def draw_boundary(ax: Axes, rows: Any) -> None:
    """Where plain descent carries a mode away."""
    own = only(rows, "boundary")
    largest = int(own.staleness.max())
    every = np.arange(0, largest + 1)
    ax.plot(every, [boundary(int(tau)) for tau in every], **_style.PREDICTED)
    # An odd staleness is worth as much as the even one before it; a line through every one would be a staircase.
    even = [1, *range(2, largest + 1, 2)]
    for reference in ("raw", "applied"):
        ax.plot(even, [restored(tau, reference) for tau in even], **_style.PREDICTED)
    for arm in ("none", "raw", "applied"):
        mine = own[(own.arm == arm) & ((own.staleness > 0) | (arm == "none"))]
        points(ax, mine.staleness, mine, LOOKS[arm])
    ax.set_yscale("log")
    lags(ax, own)
    ax.set(ylim=(0.015, 8.0), yticks=[0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    ax.set(yticklabels=["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
    ax.set(ylabel=r"largest stable step $\times$ curvature")
    ax.yaxis.set_minor_formatter(NullFormatter())
    aligned = {"va": "center", **LABEL}
    ax.text(0.3, 3.6, "control along the last gradient\nreceived: 2, as at τ = 0", **aligned)
    ax.text(5.4, 0.88, "control along the step\njust taken: as at τ/2,\nrounded down", **aligned)
    ax.text(0.02, 0.48, "no control", va="top", **NONE)
    ax.text(-0.08, 0.018, "start far from the minimum", va="bottom", **REMARK)


def draw_amplitude(ax: Axes, rows: Any) -> None:
    """What is left of a mode under Adam."""
    own = only(rows, "amplitude")
    every = np.arange(0, int(own.staleness.max()) + 1)
    # With momentum and fresh gradients the mode would be as small as the noise, and what is expected says nothing.
    for momentum, lagging in ((0.0, every), (MOMENTUM, every[1:])):
        ax.plot(lagging, [swing(int(tau), momentum) for tau in lagging], **_style.PREDICTED)
    for arm, aside in (("none" + PLAIN, 0.0), ("none", -3.0), ("before", 0.0), (BEHIND, 3.0)):
        mine = own[own.arm == arm]
        points(ax, mine.staleness, mine, LOOKS[arm], aside)
    ax.set_yscale("log")
    lags(ax, own, 3.4)
    ax.set(ylim=(0.01, 400.0), ylabel="size of the oscillation\n(root mean square, in steps of Adam)")
    ends = own[own.staleness == own.staleness.max()].set_index("arm").value
    after = 1.25 * every[-1] + 1
    arms = "filled: momentum 0.9, hollow: none; dashed:\nexpected of both without control (rule of thumb)"
    ax.text(-0.1, 80.0, arms, **REMARK)
    ax.text(1.6, 8.0, "no control", ha="right", va="center", **NONE)
    ax.text(after, ends["before"], "before Adam", va="center", **BEFORE)
    ax.text(after, ends[BEHIND], "after Adam", va="center", **AFTER)
    ax.text(0.35, 0.028, "at τ = 0 momentum damps the oscillation", va="center", **REMARK)


def draw_regret(ax: Axes, rows: Any) -> None:
    """Final regret against Adam's step size at the largest staleness, beside synchronous."""
    own = only(rows, "regret")
    largest = int(own.staleness.max())
    shown = [("synchronous", own[(own.arm == "none") & (own.staleness == 0)])]
    shown += [(arm, own[(own.arm == arm) & (own.staleness == largest)]) for arm in ("none", "before", BEHIND)]
    for look, mine in shown:
        points(ax, mine.step, mine, LOOKS[look], linestyle="-", linewidth=0.9)
    ax.axhline(1.0, color=MUTED, linewidth=0.6)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set(ylim=(2.5e-3, 80.0), xlabel="Adam's step size", ylabel="final regret (share of the initial)")
    ax.text(0.075, 9.0, f"no control,\nstaleness {largest}", ha="right", **NONE)
    ax.text(0.27, 6.0, f"before Adam,\nstaleness {largest}", va="top", **BEFORE)
    ax.text(0.5, 0.0165, f"after Adam,\nstaleness {largest}", va="top", ha="center", **AFTER)
    ax.text(0.03, 0.003, "no control,\nno staleness", color=SYNCHRONOUS, **LABEL)
    ax.text(0.0045, 1.4, "initial regret", **REMARK)


def draw_staleness(ax: Axes, rows: Any) -> None:
    """Regret over staleness at the best step of each arm."""
    tuned = table(rows, ("none", "before", BEHIND))
    fresh = tuned[(tuned.arm == "none") & (tuned.staleness == 0)].iloc[0]
    ax.axhspan(float(fresh.low), float(fresh.high), color=SYNCHRONOUS, alpha=0.18, linewidth=0.0)
    for arm, aside in (("none", -2.5), ("before", 2.5), (BEHIND, 0.0)):
        mine = tuned[tuned.arm == arm]
        points(ax, mine.staleness, mine, LOOKS[arm], aside, linestyle="-", linewidth=0.7)
    lags(ax, tuned)
    top = 1.35 * float(tuned.high.max())
    ax.set(ylim=(0.0, top), ylabel="regret at each arm's best step\n(share of the initial)")
    last = tuned[tuned.staleness == tuned.staleness.max()].set_index("arm").value
    ax.text(0.0, 1.14 * float(tuned[tuned.arm == BEHIND].high.max()), "after Adam", va="center", **AFTER)
    ax.text(8.0, 0.13 * top + float(last["before"]), "before Adam", va="center", **BEFORE)
    ax.text(8.0, 0.13 * top, "no control", va="center", **NONE)
    remark = "green band: no staleness, no control;\ncontrol can win back only what lies above"
    ax.text(-0.08, 0.29 * top, remark, va="bottom", color=SYNCHRONOUS, **LABEL)


def runs(rows: Any, quantity: str) -> str:
    """Runs behind each point of a quantity: "32" or "32 to 96"."""
    found = sorted({int(count) for count in only(rows, quantity).samples})
    return f"{found[0]} to {found[-1]}" if len(found) > 1 else f"{found[0]}"


def explain(figure: Figure, rows: Any) -> None:
    """What is varied, measured, predicted and found."""
    count = partial(runs, rows)
    _script.caption(
        figure,
        "Alignment control (GAC, our reconstruction) removes from each gradient or step what is parallel to an",
        "earlier one: half of it in a, all of it in b to f. Varied: whether it acts before Adam (on gradients, dark",
        "blue) or after Adam (on its steps, light blue); Adam's momentum is 0.9 (filled) or none (hollow).",
        "Measured, a and b: step left along a constant mean gradient with noise, no staleness; c: largest step that",
        "does not diverge without Adam, on a quadratic with gradients τ updates old (control removes what is",
        "parallel to the last gradient as received, or to the step just taken, that gradient after control); d: the",
        "same with Adam, how far it swings around the minimum; e and f: final regret in a bandit, the best",
        "possible return less the one reached. Black dashed: predicted, not fitted (in d by a rule of thumb: Adam lets",
        "the swing grow until its step is the largest stable one); none in e and f. Bars: 95 %",
        "intervals (c: bracket of a search). In d and f, marks beside each other share one staleness.",
        f"Runs for each point: a, b {count('shrinkage')}; c {count('boundary')}; d {count('amplitude')}; "
        f"e, f {count('regret')} (best steps were chosen on other runs).",
        "Found: control calms stale training and helps where a step is too large. Once the step is tuned, staleness",
        "costs nothing on this task, so that control has nothing to win back, and it harms: most after Adam, at every",
        "staleness, before Adam at the largest.",
    )


def draw(rows: Any) -> Figure:
    """Six panels: sizes of steps, stability, regret."""
    largest = int(only(rows, "regret").staleness.max())
    words = {"lag": largest, "times": _rows.times(rows, largest)}
    with _style.applied():
        figure = _style.picture(2 * _style.COLUMN, 8.6)
        axes = figure.subplots(3, 2).ravel()
        panels = (draw_known, draw_previous, draw_boundary, draw_amplitude, draw_regret, draw_staleness)
        for letter, ax, panel, title in zip("abcdef", axes, panels, TITLES, strict=True):
            panel(ax, rows)
            ax.set_title(f"{letter}  {title.format(**words)}")
        explain(figure, rows)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    found = _rows.share_numbers(rows) | _rows.stability_numbers(rows)
    return found | _rows.regret_numbers(rows) | _rows.room_numbers(rows)
