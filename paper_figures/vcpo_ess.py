"""How the share of samples that still count falls with staleness and length, and how much one sample weighs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._vcpo_ess import FEW, means, numbers, readings, realized

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit", "part": "start"}}
MARKERS = {4: "o", 16: "s", 64: "^"}
PANELS: dict[str, tuple[str, str, str, dict[int, tuple[float, float]]]] = {
    "ess": ("ess", "ESS per sample", "Fewer samples count",
            {4: (90.0, 0.45), 16: (50.0, 0.45), 64: (5.0, 0.55)}),
    "largest_share": ("share", "weight of the heaviest sample", "One sample outweighs the rest",
                      {4: (140.0, 0.14), 16: (82.0, 0.26), 64: (12.0, 0.45)}),
}  # fmt: skip
"""What is drawn: the prediction's field, labels of axis and panel, and where the labels of lengths stand."""


def draw_panel(ax: Axes, rows: Any, quantity: str) -> None:
    """One quantity of batches amid training against staleness, on the prediction from the two policies."""
    field, label, title, places = PANELS[quantity]
    for length, marker in MARKERS.items():
        own = means(rows, "training", quantity)
        own = own[own.length == length].sort_values("staleness")
        found = [realized(part, FEW) for part in readings(rows, own)]
        predicted = [np.mean([getattr(each, field) for each in some]) for some in found]
        ax.plot(own.staleness, predicted, **_style.PREDICTED)
        look.points(ax, own.staleness, own, color=look.COLOR["measured"], marker=marker)
        look.say(ax, *places[length], f"{length}{' tokens' * (length != 16)}", look.COLOR["measured"])
    ax.axhline(1.0 / int(rows.batch.iloc[0]), **_style.REFERENCE)
    ax.set_xscale("log", base=2)
    own = means(rows, "training", quantity)
    ends = [part.sort_values("staleness").value.iloc[[0, -1]].tolist() for _, part in own.groupby("length")]
    falls = all(first > last if quantity == "ess" else first < last for first, last in ends)
    title = _script.finding(falls, title, label.capitalize())
    ax.set(xlim=(0.8, 260.0), xlabel="staleness (versions)", ylabel=label, title=title)
    look.ticks(ax.xaxis, [1, 2, 4, 8, 16, 32, 64, 128])
    look.shares(ax)


def draw(rows: Any) -> Figure:
    """ESS and the heaviest sample while the policy learns."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        axes = figure.subplots(1, 2)
        for ax, quantity in zip(axes, PANELS, strict=True):
            draw_panel(ax, rows, quantity)
        batch = int(rows.batch.iloc[0])
        look.say(axes[0], 0.9, 0.3, "dashed: predicted")
        look.say(axes[0], 0.9, 0.08, f"one of {batch} samples", look.COLOR["muted"])
        look.say(axes[1], 0.9, 0.08, "equal weights", look.COLOR["muted"])
    return figure
