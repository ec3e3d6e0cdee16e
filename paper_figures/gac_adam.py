"""What projection before Adam, and after it, leaves of the step along a constant mean gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures._gac_points import points
from paper_figures._gac_projection import BEHIND, MOMENTUM, PLAIN, only, shrunk, written

EXPERIMENTS = {"gac_projection": {"quantity": "shrinkage", "task": "quadratic"}}
AFTER = BEHIND + PLAIN
SHARE = "share left of the step\nalong the mean gradient"
DARK, LIGHT = _style.COLORS["controlled"], _style.COLORS["partial"]
"""Colors of projection before Adam and after it."""


def draw_shares(ax: Axes, own: Any, arms: dict[str, dict[str, Any]], dashed: tuple[str, ...]) -> None:
    """Measured shares of the step of each arm with its look, on their predictions, over the signal."""
    signals = np.geomspace(own.signal.min(), own.signal.max(), 60)
    curves = shrunk(own, signals)
    for arm in dashed:
        ax.plot(signals, curves[arm], **_style.PREDICTED)
    for arm, look in arms.items():
        mine = own[own.arm == arm]
        points(ax, mine.signal, mine, markersize=3.6, **look)
    ax.set_xscale("log")
    ax.set_xlabel("signal: squared norm of mean gradient / of noise")


def draw_known(ax: Axes, rows: Any) -> bool:
    """Half of a known direction removed: what Adam undoes, and where that ends; whether it does both."""
    own = only(rows, "shrinkage", reference="known")
    spread = int(own.dimension.max())
    single = {"color": DARK, "marker": "v", "label": "before Adam, gradient of one coordinate"}
    draw_shares(ax, own[own.dimension == 1], {"before": single}, ("before",))
    looks = {
        "before": {"color": DARK, "marker": "s", "label": f"before Adam, gradient over {spread} coordinates"},
        AFTER: {"color": LIGHT, "marker": "D", "label": f"after Adam, {spread} coordinates"},
    }
    draw_shares(ax, own[own.dimension == spread], looks, ("before", AFTER))
    ax.set(ylim=(0.0, 1.12), ylabel=SHARE)
    ax.set_title("Half of the (known) mean gradient removed")
    ax.legend(loc="lower left")
    first = own[(own.dimension == spread) & (own.arm == "before")].sort_values("signal").value
    last = own[(own.dimension == spread) & (own.arm == AFTER)].sort_values("signal").value
    return bool(first.iloc[-1] > 0.9 and first.iloc[0] < 0.7 and last.iloc[-1] < 0.7)


def draw_previous(ax: Axes, rows: Any) -> None:
    """All of what is parallel to the step before removed after Adam, with and without momentum."""
    own = only(rows, "shrinkage", reference="previous")
    looks = {
        AFTER: {"color": LIGHT, "marker": "D", "label": "Adam without momentum"},
        BEHIND: {"color": LIGHT, "marker": "D", "mfc": "white", "label": f"momentum {MOMENTUM} (no prediction)"},
    }
    draw_shares(ax, own, looks, (AFTER,))
    ax.set(yscale="log", ylim=(2e-4, 2.0), ylabel=SHARE)
    ax.legend(loc="lower left")
    left = {arm: own[own.arm == arm].set_index("signal").value for arm in looks}
    little = (left[BEHIND] < 0.5 * left[AFTER]).all()
    name = "All that is parallel to the last step removed, after Adam"
    ax.set_title(_script.finding(little, f"{name}:\nwith momentum, less is left", name))


def draw(rows: Any) -> Figure:
    """Two panels: half of a known direction, all of the last one."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        first, second = figure.subplots(1, 2)
        undone = draw_known(first, rows)
        draw_previous(second, rows)
        what = "GAC removes the part of the gradient parallel to the last one"
        words = f"{what};\nAdam behind the projection undoes this on strong signals"
        figure.suptitle(_script.finding(undone, words, what), x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What is left of the step, and how far from the prediction."""
    own, gaps = only(rows, "shrinkage"), []
    for _, part in own.groupby(["reference", "dimension"]):
        for arm, predicted in shrunk(part, sorted(set(part.signal))).items():
            mine = part[part.arm == arm].sort_values("signal")
            gaps.append(np.abs(mine.value.astype(float) / predicted - 1.0).max())
    known, full = own[own.reference == "known"], own[own.reference == "previous"]
    spread = known[(known.dimension == known.dimension.max()) & (known.arm == "before")].sort_values("signal")
    single = known[(known.dimension == 1) & (known.arm == "before")]
    even = full.signal.iloc[int(np.abs(np.log(full.signal.astype(float))).argmin())]
    middle = {arm: full[(full.arm == arm) & (full.signal == even)].iloc[0] for arm in (AFTER, BEHIND)}
    return {
        "spread": f"{known.dimension.max():.0f}",
        "single": f"{single.value.min():.3f}",
        "weak": written(spread.iloc[0]),
        "weak_signal": f"{spread.signal.iloc[0]:g}",
        "strong": written(spread.iloc[-1]),
        "strong_signal": f"{spread.signal.iloc[-1]:g}",
        "after": written(middle[AFTER]),
        "after_momentum": written(middle[BEHIND]),
        "off": f"{100.0 * max(gaps):.1f}",
    }
