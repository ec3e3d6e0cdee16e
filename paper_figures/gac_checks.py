"""Under which conditions the checks let a staleness be read off gradients, and where it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_reading import FOOLED, NAMES, OTHER, passed

EXPERIMENTS = {"gac_alignment": {"part": "nulls", "task": "quadratic"}}

WORDS = {
    (True, True): ("detected correctly", "held"),
    (True, False): ("false alarm", "violated"),
    (False, True): ("missed", "contrast"),
    (False, False): ("correctly none", "muted"),
}
"""What an answer is, and its color: by whether a staleness is reported, and whether one would be right."""


def ordered(rows: Any) -> Any:
    """Conditions: those with a reading, then stale ones without, then others."""
    own = passed(rows)
    return own.assign(read=own.value >= 0.5, stale=own.index.str.startswith("stale")).sort_values(
        ["read", "right", "stale"], ascending=False, kind="stable"
    )


def draw_passed(ax: Axes, own: Any) -> None:
    """How many runs pass the checks under each condition."""
    for line, (name, row) in enumerate(own.iterrows()):
        reported = bool(row.value >= 0.5)
        words, key = WORDS[reported, bool(row.right) if reported else name.startswith("stale")]
        color, reach = look.COLOR[key], [[row.value - max(row.low, 0.0)], [min(row.high, 1.0) - row.value]]
        ax.plot([0.0, row.value], [-line, -line], color=color, linewidth=3.0, alpha=0.45)
        ax.errorbar(row.value, -line, xerr=np.maximum(reach, 0.0), **{**_style.MEASURED, "color": color, "capsize": 0})
        look.say(ax, 1.03 if reported else 0.06, -line, words, color)
    look.ticks(ax.yaxis, [-line for line in range(len(own))], [NAMES[name] for name in own.index])
    ax.set(xlim=(-0.01, 1.3), ylim=(0.4 - len(own), 0.6))
    ax.set_xlabel("runs in which the test reports a staleness")
    look.ticks(ax.xaxis, (0.0, 0.25, 0.5, 0.75, 1.0))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw(rows: Any) -> Figure:
    """Passing runs by condition."""
    with _style.applied():
        figure, own = _style.picture(_style.WIDTH, 3.2), ordered(rows)
        draw_passed(figure.subplots(), own)
        blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
        shows = own.value["stale"] > 0.5 and own.right["stale"] and (own.value[blank] < 0.5).all()
        fake = own.value[FOOLED] > 0.5 and not own.right[FOOLED]
        less = all(own.value[name] < 0.5 for name in OTHER)
        _script.headline(figure, shows and fake and less, "Runs in which the test reports a staleness, by condition")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares that pass stand beside readings."""
    return {}
