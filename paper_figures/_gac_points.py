"""How the figures on GAC draw and write measured rows: marks with intervals, values with half of their interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from asyncsim.plotting import _style

TOP = 0.9
"""Height of the triangles of what diverged, in shares of a panel."""


def points(ax: Axes, x: Any, own: Any, joined: bool = False, **look: Any) -> None:
    """Values of rows with their intervals, `joined` by a thin line; rows without a value are triangles at the top."""
    x, value = np.asarray(x, dtype=float), own.value.to_numpy(dtype=float)
    reach = np.abs([value - own.low.to_numpy(dtype=float), own.high.to_numpy(dtype=float) - value])
    if ax.get_yscale() == "log":
        # An interval that reaches below 0 would have no lower end.
        reach[0] = np.minimum(reach[0], 0.999 * value)
    there = ~np.isnan(value)
    if joined:
        ax.plot(x[there], value[there], color=look["color"], linewidth=0.9)
    ax.errorbar(
        x[there], value[there], yerr=reach[:, there], **{**_style.MEASURED, "markersize": 3.2, "capsize": 0, **look}
    )
    if not there.all():
        height = np.full(int((~there).sum()), TOP)
        ax.plot(x[~there], height, "^", color=look["color"], markersize=4, transform=ax.get_xaxis_transform())


def ramp(level: int, largest: int) -> Any:
    """The color of a staleness; synchronous has its own."""
    share = np.log1p(level) / np.log1p(largest)
    # Paler than this letters and marks are hard to see.
    return _style.staleness(max(share, 0.45)) if level else _style.COLORS["synchronous"]


def zero(ax: Axes, reach: float) -> None:
    """The axis of a correlation, whole, with its zero up to where labels begin."""
    ax.plot([0.0, reach], [0.0, 0.0], color=_style.COLORS["muted"], linewidth=0.6, zorder=0)
    ax.set(ylim=(-1.04, 1.04), yticks=[-1.0, -0.5, 0.0, 0.5, 1.0])


def written(row: Any) -> str:
    """A correlation with its sign and half of its interval, in as many digits as show the half."""
    reach = (row.high - row.low) / 2
    digits = next(k for k in (2, 3, 4, 5) if reach >= 0.95 * 10**-k or k == 5)
    return f"{row.value:+.{digits}f} ± {reach:.{digits}f}".replace("-", "−")
