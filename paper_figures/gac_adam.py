"""What projection before Adam, and after it, leaves of the step along a constant mean gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures._gac_points import points
from paper_figures._gac_projection import BEHIND, PLAIN, only, shrunk, written
from paper_figures._vcpo import ends

EXPERIMENTS = {"gac_projection": {"quantity": "shrinkage", "task": "quadratic"}}
AFTER = BEHIND + PLAIN
LOOKS: dict[str, dict[str, Any]] = {
    "before": _methods.look("projection"),
    AFTER: _methods.look("projection", marker="D", markerfacecolor="white"),
}
NAMES = {"before": "projection\nbefore Adam", AFTER: "projection\nafter Adam"}


def draw(rows: Any) -> Figure:
    """Half of a known direction removed: what is left of the step over the signal, on the predictions."""
    own = only(rows, "shrinkage", reference="known")
    own = own[own.dimension == own.dimension.max()].sort_values("signal")
    signals = np.geomspace(own.signal.min(), own.signal.max(), 60)
    curves, left = shrunk(own, signals), {}
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        ax.set(xscale="log", xlim=(0.8 * signals[0], 1.25 * signals[-1]), ylim=(0.0, 1.12))
        for arm, style in LOOKS.items():
            mine = own[own.arm == arm]
            left[arm] = mine.value.to_numpy(dtype=float)
            ax.plot(signals, curves[arm], **_style.PREDICTED)
            points(ax, mine.signal, mine, **{**style, "markersize": 3.6})
        ends(ax, {NAMES[arm]: (left[arm][-1], style["color"]) for arm, style in LOOKS.items()})
        ax.set_xlabel("signal-to-noise ratio (squared norms)")
        ax.set_ylabel("step along the mean gradient\n/ step without projection")
        undone = left["before"][-1] > 0.9 and left["before"][0] < 0.7 and left[AFTER][-1] < 0.7
        _script.headline(figure, undone, "Step that a projection leaves, before Adam and after it")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """What is left of the step, and how far from the prediction."""
    own, gaps = only(rows, "shrinkage"), []
    for _, part in own.groupby(["reference", "dimension"]):
        for arm, predicted in shrunk(part, sorted(set(part.signal))).items():
            mine = part[part.arm == arm].sort_values("signal")
            gaps.append(np.abs(mine.value.astype(float) / predicted - 1.0).max())
    known = own[own.reference == "known"]
    spread = known[(known.dimension == known.dimension.max()) & (known.arm == "before")].sort_values("signal")
    single = known[(known.dimension == 1) & (known.arm == "before")]
    return {
        "spread": f"{known.dimension.max():.0f}",
        "single": f"{single.value.min():.3f}",
        "weak": written(spread.iloc[0]),
        "weak_signal": f"{spread.signal.iloc[0]:g}",
        "strong": written(spread.iloc[-1]),
        "strong_signal": f"{spread.signal.iloc[-1]:g}",
        "off": f"{100.0 * max(gaps):.1f}",
    }
