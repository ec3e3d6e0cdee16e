"""How the share of samples that still count falls with staleness and length, and how much one sample weighs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_ess import FEW, means, numbers, readings, realized

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit", "part": "training", "kind": "runs", "reward": "tokens"}}
MARKERS = {4: "o", 16: "s", 64: "^"}
A_FEW = 0.1
"""Share of a batch that is a few samples."""
PANELS: dict[str, tuple[str, str, str]] = {
    "ess": ("ess", "effective sample size / batch size", "Effective sample size"),
    "largest_share": ("share", "share of the total weight", "Weight of the heaviest sample"),
}
"""What is drawn: the prediction's field, the label of the axis and the title of the panel."""


def draw_panel(ax: Axes, rows: Any, quantity: str) -> bool:
    """One quantity of batches amid training against staleness, on the prediction from the two policies; if it moves."""
    field, label, title = PANELS[quantity]
    for length, marker in MARKERS.items():
        own = means(rows, "training", quantity)
        own = own[own.length == length].sort_values("staleness")
        found = [realized(part, FEW) for part in readings(rows, own)]
        predicted = [np.mean([getattr(each, field) for each in some]) for some in found]
        ax.plot(own.staleness, predicted, **_style.PREDICTED)
        look.points(ax, own.staleness, own, color=look.COLOR["measured"], marker=marker)
    ax.axhline(1.0 / int(rows.batch.iloc[0]), **_style.REFERENCE)
    ax.set_xscale("log", base=2)
    ax.set(xlim=(0.8, 180.0), xlabel="staleness (versions)", ylabel=label, title=title)
    look.ticks(ax.xaxis, [1, 2, 4, 8, 16, 32, 64, 128])
    look.shares(ax)
    own, color = means(rows, "training", quantity), look.COLOR["measured"]
    last = {length: part.sort_values("staleness").iloc[-1] for length, part in own.groupby("length")}
    far = {f"{n} tokens": (row.value, color) for n, row in last.items() if row.staleness == own.staleness.max()}
    look.ends(ax, far)
    for length, row in last.items():
        if f"{length} tokens" not in far:
            look.say(ax, 0.88 * row.staleness, row.value, f"{length} tokens", color, ha="right")
    ends = [part.sort_values("staleness").value.iloc[[0, -1]].tolist() for _, part in own.groupby("length")]
    if quantity == "ess":
        return all(first > last for first, last in ends) and ends[-1][1] < A_FEW
    return all(first < last for first, last in ends) and max(last for _, last in ends) > 0.2


def draw(rows: Any) -> Figure:
    """ESS and the heaviest sample while the policy learns."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2)
        moves = [draw_panel(ax, rows, quantity) for ax, quantity in zip(axes, PANELS, strict=True)]
        batch = int(rows.batch.iloc[0])
        look.say(axes[0], 0.9, 0.08, f"minimum: 1 of {batch} samples", look.COLOR["muted"])
        look.say(axes[1], 0.9, 0.1, "equal weights", look.COLOR["muted"])
        _script.headline(figure, all(moves), "Effective sample size and the heaviest sample against staleness")
    return figure


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether ESS is at most that of a few samples, by length and staleness; inside where that is predicted."""
    few = []
    ess = means(rows, "training", "ess").sort_values(["length", "staleness"])
    for length, own in ess.groupby("length"):
        for row, part in zip(own.itertuples(), readings(rows, own), strict=True):
            predicted = np.mean([each.ess for each in realized(part, FEW)])
            place = (f"{length} tokens", f"{row.staleness}")
            few.append(Setting(place, decided(row.high <= A_FEW, row.low > A_FEW), bool(predicted <= A_FEW)))
    return {"few": few}
