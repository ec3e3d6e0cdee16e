"""Two arms of finished runs: their curves with the stretch that was read, and the difference with its intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from asyncsim.base.quantiles import critical
from asyncsim.plotting import _style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asyncsim.base.judgment import Judgment

COLORS = ("measured", "contrast")


def draw_judgment(judgment: Judgment) -> Figure:
    """Curves of A and B (left), the stretch shaded; the difference between settings and inside this pair (right)."""
    figure = _style.picture(2 * _style.COLUMN, 2.6)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    for arm, name in zip(judgment.arms, COLORS, strict=True):
        color, count, mean = _style.COLORS[name], len(arm.curves), arm.curves.mean(0)
        left.plot(arm.places, mean, color=color, label=f"{arm.letter}: {count} run{'s' * (count > 1)}")
        if count > 1:
            half = critical(0.05, count - 1.0) * arm.curves.std(0, ddof=1) / math.sqrt(count)
            ends = np.clip([mean - half, mean + half], arm.curves.min(), arm.curves.max())
            left.fill_between(arm.places, *ends, color=color, alpha=0.2, linewidth=0)
    left.axvspan(judgment.start, judgment.stop, color=_style.COLORS["effect"], zorder=0)
    many = max(len(arm.curves) for arm in judgment.arms) > 1
    bands = "; bands: 95 % between seeds" * many
    left.set(xlabel=judgment.axis, ylabel=judgment.metric, title=f"shaded: read{bands}")
    left.legend(loc="best")
    if judgment.within is not None:
        right.axhspan(-judgment.within, judgment.within, color=_style.COLORS["effect"], zorder=0)
    right.axhline(0.0, **_style.REFERENCE)
    rows = [("fresh seeds", judgment.half), ("these two runs", judgment.inside)]
    rows = [(label, half) for label, half in rows if half is not None]
    for place, (label, half) in enumerate(rows):
        known = half is not None and math.isfinite(half)
        right.errorbar(
            [place], [judgment.difference], yerr=half if known else None, color=_style.INK, **_style.MEASURED
        )
        rows[place] = (label if known else f"{label}:\nunknown", half)
    right.set_xticks(range(len(rows)), [label for label, _ in rows])
    right.set(xlim=(-0.6, len(rows) - 0.4), ylabel="B less A", title=f"B against A: {judgment.word}")
    _style.key(figure)
    return figure
