"""What the figures on M2PO share: looks of its arms, rows of an arm, shares where the clip masks as published."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from paper_figures import _methods
from paper_figures import _vcpo as look
from paper_figures._script import pick

TASKS = {"forks": "forks", "graded": "graded", "bandit": "bandit"}
"""Tasks of the experiment, and what a panel calls them."""
PAID = {"unit": "updates (4 per version)", "names": {"forks": "forks"}}
"""What a line says of the staleness and of the tasks of the experiment."""
NAMES = {
    "clip": "PPO's clip", "m2po": "M2PO", "none": "no clip (no trust region)", "release": "M2PO's released code",
    "areal": "decoupled PPO\n(AReaL)", "fresh": "fresh data",
    "cispo": "CISPO", "gppo": "GPPO", "topr": "TOPR", "gspo": "GSPO",
}  # fmt: skip
ARMS = {arm: _methods.look(name) for arm, name in NAMES.items()}


def grid(rows: Any, task: str, arm: str, quantity: str) -> Any:
    """A quantity of an arm at every rate, at the largest staleness, in order of rates; missing ones left out."""
    own = pick(rows, part="grid", task=task, arm=arm, quantity=quantity)
    own = own[own.staleness == rows.staleness.max()]
    return own.dropna(subset="value").sort_values("rate").reset_index(drop=True)


def lines(ax: Axes, rows: Any, task: str, shown: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Quantities against the rate: (arm, its look) by quantity and arm."""
    for key, (arm, style) in shown.items():
        own = grid(rows, task, arm, key.partition(" ")[0])
        own = own[own.value > 0] if ax.get_yscale() == "log" else own
        look.points(ax, own.rate, own, **{**look.CONNECTED, "markersize": 3.5, **style})
    ax.set(xscale="log", xlabel="learning rate")
    ax.xaxis.set_major_locator(LogLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def beside(rows: Any, task: str, share: float, arm: str) -> float:
    """Share that an arm masks at the rate where the clip masks this share; NaN where the clip never does."""
    clip, other = grid(rows, task, "clip", "masked"), grid(rows, task, arm, "masked")
    rising = int(clip.value.argmax()) + 1
    x, y = np.log(clip.rate[:rising]), clip.value[:rising]
    if len(x) < 2 or not y.iloc[0] <= share <= y.iloc[-1]:
        return float("nan")
    return float(np.interp(np.interp(share, y, x), np.log(other.rate), other.value))


def percent(value: float, digits: int = 2) -> str:
    """A share in percent; a dash where there is none."""
    return f"{100 * value:.{digits}f} %" if np.isfinite(value) else "none"


def verdict(rows: Any, task: str, arm: str, over: str = "mean") -> Any:
    """The row of an arm beside M2PO in one comparison; None where it was not made."""
    own = pick(rows, part="compare", task=task, arm=arm, over=over, quantity="difference")
    return own.iloc[0] if len(own) else None
