"""What the figures on ROLL Flash's seconds share: the fastest share of a pool, speeds over other arms, looks."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from paper_figures import _script
from paper_figures import _vcpo as look

OLD: dict[str, Any] = {"color": look.COLOR["muted"], "marker": "o"}
PART: dict[str, Any] = {"color": look.COLOR["partial"], "marker": "D"}
NEW: dict[str, Any] = {"color": look.COLOR["controlled"], "marker": "^"}
OTHER: dict[str, Any] = {"color": look.COLOR["contrast"], "marker": "s"}
TIGHT, LONG = 0.5, 1.0
"""Spreads of lengths."""
TASK = f"timing only, standard deviation of log length {TIGHT:g}"


def fastest(rows: Any, part: str, arm: str, spread: float | None = None) -> Any:
    """Rows of an arm by `x` and `y`, each with the share of the pool that is fastest."""
    own = _script.pick(rows, part=part, arm=arm)
    own = own if spread is None else own[own.spread == spread]
    best = own.groupby(["x", own.y.fillna(0.0)]).value.idxmin()
    return own.loc[best].sort_values(["x", "y"])


def one(rows: Any, part: str, arm: str, x: float, y: float | None = None, spread: float | None = None) -> Any:
    """The row of an arm at a place."""
    own = fastest(rows, part, arm, spread)
    own = own[own.x == x] if y is None else own[(own.x == x) & (own.y == y)]
    return own.iloc[0]


def faster(base: Any, row: Any) -> dict[str, float]:
    """How many times faster one arm is than another, with the interval that both give."""
    value = base.value / row.value
    reach = value * math.hypot(*((each.high - each.low) / 2 / each.value for each in (base, row)))
    return {"value": value, "low": value - reach, "high": value + reach}


def times(base: Any, row: Any) -> str:
    """A speed with half of its interval."""
    found = faster(base, row)
    return f"{found['value']:.2f} ± {found['value'] - found['low']:.2f}"


def seconds(row: Any) -> str:
    """Seconds to the last digit that is known."""
    reach = (row.high - row.low) / 2
    return f"{row.value:.0f} ± {reach:.0f}" if reach >= 0.5 else f"{row.value:.0f}"


def line(ax: Axes, x: Any, own: Any, **style: Any) -> None:
    """Values with their intervals, joined."""
    look.points(ax, x, pd.DataFrame(own), **{**look.CONNECTED, "markersize": 3.5, "capsize": 0, **style})


def key(ax: Axes, **more: Any) -> None:
    """A small key inside a panel."""
    ax.legend(frameon=False, fontsize=7.0, **more)
