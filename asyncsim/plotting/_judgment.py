"""Two arms of finished runs: their curves with the stretch that was read, and the difference with its intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asyncsim.base.quantiles import critical
from asyncsim.plotting import _style
from asyncsim.plotting._metrics import SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asyncsim.base.judgment import Judgment


def draw_judgment(judgment: Judgment) -> Figure:
    """Curves of A and B (left), the stretch shaded; the difference between settings and inside this pair (right)."""
    figure = _style.picture(_style.WIDTH, 2.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for arm, (color, _) in zip(judgment.arms, SERIES, strict=False):
        count, mean = len(arm.curves), arm.curves.mean(0)
        stems = ", ".join(each.removesuffix(".csv") for each in arm.names[:2]) + f" and {count - 2} more" * (count > 2)
        left.plot(arm.places, mean, color=color, label=f"{arm.letter}: {stems}")
        if count > 1:
            half = critical(0.05, count - 1.0) * arm.curves.std(0, ddof=1) / math.sqrt(count)
            left.fill_between(arm.places, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    left.axvspan(judgment.start, judgment.stop, color=_style.COLORS["effect"], zorder=0)
    bands = "; bands: 95 % between seeds" * (max(len(arm.curves) for arm in judgment.arms) > 1)
    left.set(xlabel=judgment.axis, ylabel=judgment.metric, title=f"shaded: the stretch compared{bands}")
    # Bands of two or three seeds are wide, and would hide the curves.
    lows, tops = zip(*((arm.curves.min(), arm.curves.max()) for arm in judgment.arms), strict=True)
    beyond = 0.1 * (max(tops) - min(lows))
    left.set_ylim(min(lows) - beyond, max(tops) + beyond)
    left.legend(loc="best")
    if judgment.within is not None:
        right.axhspan(-judgment.within, judgment.within, color=_style.COLORS["effect"], zorder=0)
        right.set_xlabel("shaded: too small to matter")
    right.axhline(0.0, **_style.REFERENCE)
    level = f"{100.0 * (1.0 - judgment.error):.4g} % interval"
    rows = [("fresh seeds", level, judgment.half), ("these two runs", "95 % interval", judgment.inside)]
    rows = [row for row in rows if row[2] is not None]
    labels = [f"{name}:\n{level if math.isfinite(half or 0.0) else 'cannot tell'}" for name, level, half in rows]
    half = [each for *_, each in rows]
    places = range(len(rows))
    right.errorbar(places, [judgment.difference] * len(rows), yerr=half, color=_style.INK, **_style.MEASURED)
    for place in (k for k in places if not math.isfinite(half[k])):
        right.axvline(place, color=_style.INK, linewidth=1.0)  # a bar without ends
    right.set_xticks(places, labels)
    right.set(xlim=(-0.6, len(rows) - 0.4), ylabel="B less A", title=f"B against A: {judgment.word}")
    return figure
