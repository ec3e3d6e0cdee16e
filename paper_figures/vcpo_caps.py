"""The cap of truncated ratios: update of the fall, of sequence and token ratios."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures import _vcpo_steps as steps
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_steps import BOLD
from paper_figures.vcpo_masks import LEVELS, SHOWN, caps, last

EXPERIMENTS = steps.drawn("cap", "4 × best synchronous")
LOOKS: dict[str, dict[str, Any]] = dict(
    zip(LEVELS, (look.TRUNCATED, _methods.look("token truncated IS", **look.HOLLOW)), strict=True)
)


def draw_caps(ax: Axes, rows: Any) -> None:
    """Median update of the fall against caps, of both levels, at the 4× rate."""
    names = {}
    for shift, (level, looks) in zip((0.96, 1.04), LOOKS.items(), strict=True):
        own = caps(rows, level, "when", BOLD)
        look.points(ax, own.place * shift, own, **look.CONNECTED, **{**looks, "markersize": 3.5})
        words = ":\nno fall until the end" if own.value.iloc[-1] >= last(rows) else ""
        names[f"{level} ratios{words}"] = (float(own.value.iloc[-1]), looks["color"])
    ax.set_xscale("log", base=2)
    places = sorted(caps(rows, "sequence", "when", BOLD).place)
    look.ticks(ax.xaxis, places, [f"{x:g}" if x < 256 else "none" for x in places])
    ax.set(xlabel="cap (maximum) of importance ratios", ylabel="update at which the median run falls", ylim=(0, None))
    ax.axhline(last(rows), **_style.REFERENCE)
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Update of the fall by cap."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        draw_caps(figure.subplots(), rows)
        own, token = (caps(rows, level, "when", BOLD) for level in LEVELS)
        later = own.value.max() < last(rows) and own.low.iloc[-1] > own.high.iloc[0]
        _script.headline(figure, later and token.value.min() >= last(rows), "Fall by the cap on importance ratios")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Returns by cap stand beside masks."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the median run falls later with the paper's cap than with another one, at the 4× rate."""
    own, found = caps(rows, "sequence", "when", BOLD).set_index("cap"), []
    paper = own.loc[SHOWN]
    for cap, row in own.drop(SHOWN).iterrows():
        apart, reach = paper.value - row.value, math.hypot(paper.high - paper.low, row.high - row.low) / 2.0
        found.append(Setting((f"other cap: {cap:g}" if cap else "no cap",), decided(apart > reach, apart < -reach)))
    return {"longest": found}
