"""Under which conditions the checks let a staleness be read off gradients, and where it is wrong."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from asyncsim.plotting import _style
from experiments.gac_alignment import LATE
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_reading import FOOLED, NAMES, OTHER, passed

EXPERIMENTS = {"gac_alignment": {"part": "nulls", "task": "quadratic"}}


MISSED = "momentum, flat\ndirections or still learning"
COLOR = {"detected correctly": "held", "false alarm": "violated", "correctly none": "muted"}
SAID = {
    "stale, small step": f"staleness {LATE}, plain SGD, low learning rate",
    "stale": f"staleness {LATE}, plain SGD near the optimum",
    FOOLED: "fresh data, each batch used twice",
}


def grouped(own: Any) -> list[tuple[str, Any, str]]:
    """Conditions with a reading, one by one; those without, together by whether one staleness would be right."""
    read = own[own.value >= 0.5].sort_values("right", ascending=False)
    words = {True: "detected correctly", False: "false alarm"}
    found = [(SAID.get(name, NAMES[name]), row, words[bool(row.right)]) for name, row in read.iterrows()]
    silent = own[own.value < 0.5]
    stale = silent.index.str.startswith("stale")
    for part, name, word in (
        (silent[stale], f"staleness {LATE}, {MISSED}", "missed"),
        (silent[~stale], "fresh or varying staleness", "correctly none"),
    ):
        if len(part):
            most, few = part.loc[part.value.idxmax()], f"{len(part)} condition{'s' * (len(part) > 1)}"
            found.append((f"{name} ({few})", most, f"{word} (highest of {len(part)})"))
    return found


def draw_passed(ax: Axes, own: Any) -> None:
    """How many runs pass the checks under each condition."""
    found = grouped(own)
    for line, (_, row, words) in enumerate(found):
        color = look.COLOR["contrast" if words.startswith("missed") else COLOR[words.partition(" (")[0]]]
        reach = [[max(row.value - max(row.low, 0.0), 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
        ax.plot([0.0, row.value], [-line, -line], color=color, linewidth=3.0, alpha=0.45)
        ax.errorbar(row.value, -line, xerr=reach, **{**_style.MEASURED, "color": color, "capsize": 0})
        look.say(ax, 1.03 if row.value >= 0.5 else 0.06, -line, words, color)
    look.ticks(ax.yaxis, [-line for line in range(len(found))], [name for name, *_ in found])
    ax.set(xlim=(-0.01, 1.3), ylim=(0.5 - len(found), 0.6))
    ax.set_xlabel("runs in which the test reports a staleness")
    look.ticks(ax.xaxis, (0.0, 0.25, 0.5, 0.75, 1.0))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def draw(rows: Any) -> Figure:
    """Passing runs by condition."""
    with _style.applied():
        figure, own = _style.picture(_style.WIDTH, 2.3), passed(rows)
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
