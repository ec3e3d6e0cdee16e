"""Entropy at tokens that the clip and M2PO mask on stale data, beside that of all tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _m2po as arms
from paper_figures import _vcpo as look

EXPERIMENTS = ("m2po",)
RATE = 0.1
"""Largest learning rate whose entropies are quoted; at bolder ones policies end deterministic."""
SHOWN = {
    "entropy all": ("m2po", {"color": look.COLOR["muted"], "marker": "s"}),
    "entropy_masked clip": ("clip", arms.ARMS["clip"]),
    "entropy_masked m2po": ("m2po", arms.ARMS["m2po"]),
}


def draw(rows: Any) -> Figure:
    """A panel a task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.4)
        axes = figure.subplots(1, len(arms.TASKS))
        for ax, (task, name) in zip(axes, arms.TASKS.items(), strict=True):
            arms.lines(ax, rows, task, SHOWN)
            ax.set(ylim=(0.0, 1.05 * ax.get_ylim()[1]), title=name)
        figure.suptitle("Both mask uncertain tokens, where tokens differ in certainty", x=0.01, ha="left")
        axes[0].set_ylabel("entropy (nats)")
        for y, text, color in (
            (0.3, "masked by clip", arms.ARMS["clip"]["color"]),
            (0.2, "by M2PO", arms.ARMS["m2po"]["color"]),
            (0.1, "all tokens", look.COLOR["muted"]),
        ):
            axes[2].text(0.05, y, text, color=color, transform=axes[2].transAxes, **look.LETTERS)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Entropy of masked tokens over that of all, least and largest over rates."""
    found = {"rate": f"{RATE:g}"}
    for task in arms.TASKS:
        for arm in ("clip", "m2po"):
            masked, every = (arms.grid(rows, task, arm, key) for key in ("entropy_masked", "entropy"))
            both = masked.merge(every, on="rate", suffixes=("", "_all"))
            ratios = (both.value / both.value_all)[both.rate <= RATE].to_numpy(dtype=float)
            found[f"{task}_{arm}"] = f"{np.min(ratios):.2f} to {np.max(ratios):.2f}"
    return found
