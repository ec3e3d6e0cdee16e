"""Falls of GRPO under GAC against the cosine from which it projects, or skips a step."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._gac_points import ramp
from paper_figures.gac_cosine import LATE, LEVELS, MIDDLE, swept
from paper_figures.gac_steps import FEW, points

EXPERIMENTS = {"gac_steps": {"part": "threshold", "rate": 0.2}}


PANELS = {
    False: ("GAC projects the aligned part out of the gradient", "projects"),
    True: ("GAC skips the update (and projects above {low:.2g})", "skips"),
}
"""Title and verb by whether steps are skipped."""


def line(rows: Any, level: int, skips: bool) -> tuple[Any, Any]:
    """Thresholds and shares of runs that fall; without a skip the usual projection is left."""
    own = swept(rows, level, "fell", skips)
    if not skips or own.empty:
        return own.low, own
    rest = swept(rows, level, "fell", False)
    own = pd.concat([own, rest[rest.low == own.low.iloc[0]]])
    return own.high, own


def draw_thresholds(ax: Axes, rows: Any, skips: bool) -> None:
    """Falls against a threshold, a line for each staleness."""
    title, verb = PANELS[skips]
    names = {}
    for level, marker in LEVELS.items():
        x, own = line(rows, level, skips)
        if len(own):
            for part in (x < 1.0, x == 1.0):
                points(ax, x[part], own[part], color=ramp(level, LATE), marker=marker)
            names[f"staleness {level}"] = (float(own.value.iloc[-1]), ramp(level, LATE))
    look.shares(ax)
    shown = (0.0, 0.25, 0.5, 0.75, 1.0)
    look.ticks(ax.xaxis, shown, [*(f"{each:g}" for each in shown[:-1]), "never"])
    title = title.format(low=swept(rows, LATE, "fell", True).low.min())
    ax.set(title=title, xlim=(-0.05, 1.05))
    ax.set_xlabel(f"cosine of consecutive gradients above which GAC {verb}")
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """A panel for each rule, a line for each staleness."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, skips in zip(axes, PANELS, strict=True):
            draw_thresholds(ax, rows, skips)
        axes[0].set_ylabel("runs that fall (lose half of their gain)")
        middle = swept(rows, MIDDLE, "fell", False)
        projected, skipped = (swept(rows, LATE, "fell", skips).value.min() for skips in PANELS)
        better = middle[middle.low < 1.0].value.max() < 0.05 and skipped < 0.05 < 0.5 < projected
        _script.headline(figure, better, "Runs of GRPO that fall under GAC")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares of falls stand beside cosines in training."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether fewer than a tenth of GRPO's runs fall, by staleness and by the cosine above which GAC acts."""
    found = []
    for level in LEVELS:
        for skips, (_, verb) in PANELS.items():
            for row in swept(rows, level, "fell", skips).itertuples():
                threshold = row.high if skips else row.low
                if threshold < 1.0:
                    place = (f"staleness {level}", f"{verb} above", f"{threshold:.2g}")
                    found.append(Setting(place, decided(row.high_end < FEW, row.low_end >= FEW)))
    return {"stable": found}
