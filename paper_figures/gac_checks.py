"""Under which conditions the checks let a staleness be read off gradients, and where it is wrong."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from experiments.gac_alignment import LATE
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_reading import FOOLED, NAMES, passed

EXPERIMENTS = {"gac_alignment": {"part": "nulls", "task": "Gaussian bandit"}}


SAID = {
    "synchronous, large step": "fresh data, high learning rate",
    "synchronous, same step": "fresh data, low learning rate",
    "synchronous, momentum": "fresh data, momentum 0.9",
    "batch used 4 times": "fresh data, each batch used 4 times",
    "in turn": f"staleness 0 to {LATE} in turn",
    "random": f"staleness random, 0 to {LATE}",
    FOOLED: "fresh data, each batch used twice, built to mislead",
    "stale": f"staleness {LATE}, high learning rate",
    "stale, small step": f"staleness {LATE}, low learning rate",
    "stale, flat modes": f"staleness {LATE}, mostly flat objective",
    "stale, momentum": f"staleness {LATE}, momentum 0.9",
    "stale, learning": f"staleness {LATE}, policy still learning",
}
"""Conditions of training; those with one staleness of old data come last."""


CHECKS = "checks: the correlation of two gradients changes sign at only one distance in updates, clear of noise"
WIDE = 52
"""Most letters of a line of conditions."""


def shortened(names: list[str]) -> list[str]:
    """Names with a first part in common as one."""
    heads = Counter(name.partition(", ")[0] for name in names)
    shared = [head for head, count in heads.items() if count > 1]
    joined = [f"{h}: " + ", ".join(n.removeprefix(f"{h}, ") for n in names if n.startswith(f"{h}, ")) for h in shared]
    return [*joined, *(name for name in names if name.partition(", ")[0] not in shared)]


def grouped(own: Any) -> list[tuple[str, Any, str]]:
    """Conditions with a reading, one by one; those without, together by whether one staleness would be right."""
    own = own.assign(
        fate=["no reading" if v < 0.5 else "right" if r else "wrong" for v, r in zip(own.value, own.right, strict=True)]
    )
    read = own[own.fate != "no reading"].sort_values("fate")
    found = [(SAID[name], row, f"reading {row.fate}") for name, row in read.iterrows()]
    silent = own[own.fate == "no reading"]
    stale = silent.index.str.startswith("stale")
    for part in (silent[~stale], silent[stale]):
        if len(part):
            names = "; ".join(shortened([SAID[name] for name in part.index]))
            most = part.loc[part.value.idxmax()]
            found.append(
                (
                    textwrap.fill(names, WIDE),
                    most,
                    f"no reading in {len(part)} conditions\n(mark: the highest share of them)",
                )
            )
    return found


def draw_passed(ax: Axes, own: Any) -> None:
    """How many runs pass the checks under each condition."""
    found = grouped(own)
    for line, (_, row, words) in enumerate(found):
        color = look.COLOR["muted" if row.value < 0.5 else "held" if row.right else "violated"]
        reach = [[max(row.value - max(row.low, 0.0), 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
        ax.plot([0.0, row.value], [-line, -line], color=color, linewidth=3.0, alpha=0.45)
        ax.errorbar(row.value, -line, xerr=reach, **{**_style.MEASURED, "color": color, "capsize": 0})
        look.say(ax, 1.03 if row.value >= 0.5 else 0.06, -line, words, color)
    look.ticks(ax.yaxis, [-line for line in range(len(found))], [name for name, *_ in found])
    ax.set(xlim=(-0.01, 1.3), ylim=(0.5 - len(found), 0.6), ylabel="condition of training")
    ax.set_xlabel("runs in which the checks accept a staleness read from gradients")
    look.ticks(ax.xaxis, (0.0, 0.25, 0.5, 0.75, 1.0))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw(rows: Any) -> Figure:
    """Passing runs by condition."""
    with _style.applied():
        figure, own = _style.picture(_style.WIDTH, 3.2), passed(rows)
        draw_passed(figure.subplots(), own)
        blank = [name for name in NAMES if not name.startswith("stale") and name != FOOLED]
        shows = own.value["stale"] > 0.5 and own.right["stale"] and (own.value[blank] < 0.5).all()
        fake = own.value[FOOLED] > 0.5 and not own.right[FOOLED]
        words = "A staleness read from gradients is right where our checks accept it, unless data are built to mislead"
        title = _script.finding(shows and fake, words, "Where our checks accept a staleness read from gradients")
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "handlelength": 0.0}
        figure.legend([Line2D([], [], linestyle="none")], [CHECKS], title=title, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Shares that pass stand beside readings."""
    return {}
