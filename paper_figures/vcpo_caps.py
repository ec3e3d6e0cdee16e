"""The cap of truncated ratios: return at the end and update of the fall, of sequence and token ratios."""

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


def draw_caps(ax: Axes, rows: Any, quantity: str) -> None:
    """A quantity against caps, of both levels, at the 4× rate."""
    names = {}
    for shift, (level, looks) in zip((0.96, 1.04), LOOKS.items(), strict=True):
        own = caps(rows, level, quantity, BOLD)
        look.points(ax, own.place * shift, own, **look.CONNECTED, **{**looks, "markersize": 3.5})
        names[f"{level} ratios"] = (float(own.value.iloc[-1]), looks["color"])
    ax.set_xscale("log", base=2)
    places = sorted(caps(rows, "sequence", quantity, BOLD).place)
    look.ticks(ax.xaxis, places, [f"{x:g}" if x < 256 else "none" for x in places])
    ax.set_xlabel("cap (maximum) of importance ratios")
    if quantity == "when":
        ax.set_ylim(0, None)
        ax.axhline(last(rows), **_style.REFERENCE)
        names = {f"{name}: never" if y >= last(rows) else name: (y, color) for name, (y, color) in names.items()}
    look.ends(ax, names)


def draw(rows: Any) -> Figure:
    """Return, update of the fall."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_caps(left, rows, "end")
        draw_caps(right, rows, "when")
        left.set(title="Final return, truncated IS", ylabel="return at the end of training")
        right.set(title="Time until half of the gain is gone", ylabel="median update of the fall")
        kept = caps(rows, "token", "end", BOLD).low.min() > 0.5
        _script.headline(figure, falls(rows) and kept, "Return and fall by the cap on importance ratios")
    return figure


def falls(rows: Any) -> bool:
    """Whether half of the runs with sequence ratios fall, or end below half of the best return, at every cap."""
    fell, end = caps(rows, "sequence", "fell", BOLD).value, caps(rows, "sequence", "end", BOLD).value
    return bool(((fell.to_numpy() > 0.5) | (end.to_numpy() < 0.43)).all())


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
