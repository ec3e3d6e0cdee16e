"""Cosine of consecutive gradients before runs of RLOO fall, and how well it and other scores warn of falls."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures.gac_cosine import KINDS, LATE, LEAD, NAMES, SCORES, least, warned
from paper_figures.gac_steps import points

EXPERIMENTS = {"gac_steps": {"part": "warning", "arm": ("RLOO", "cosine", "ESS", "return", "staleness")}}


def draw_before(ax: Axes, rows: Any) -> None:
    """Mean cosine before falls, beside runs that never fall, at the same updates."""
    for quantity, (name, color, marker) in KINDS.items():
        own = warned(rows, quantity, LATE, rate=least(rows)).sort_values("lead")
        points(ax, -own.lead, own, color=look.COLOR[color], marker=marker, label=name)
    ax.set(ylim=(0.0, 1.0), xlabel="updates before the fall", ylabel="cosine of consecutive gradients")
    ax.set_title(f"RLOO at staleness {LATE}")
    ax.legend(loc="upper left")


def draw_areas(ax: Axes, rows: Any) -> None:
    """Areas of four scores over leads, pooled over staleness."""
    for place, (score, style) in enumerate(SCORES.items()):
        own = warned(rows, "area", arm=score).sort_values("lead")
        points(ax, 0.3 * (place - 1.5) - own.lead, own, label=NAMES[score], **style)
    ax.axhline(0.5, **_style.REFERENCE)
    ax.set(
        ylim=(0.0, 1.05),
        xlabel="updates before the fall",
        ylabel="AUC, falling or healthy",
        title="RLOO, all staleness pooled",
    )
    ax.legend(ncols=2, loc="lower right")


def draw(rows: Any) -> Figure:
    """Cosines before falls, and areas of scores."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        draw_before(left, rows)
        draw_areas(right, rows)
        # Short runs have no falls to warn of, and then neither area.
        cosine, alone = (warned(rows, "area", arm=score, lead=LEAD).value.mean() for score in ("cosine", "staleness"))
        words = "High cosines warn of falls on a chain, but the staleness alone warns better"
        title = _script.finding(0.6 < cosine < alone, words, "Cosine of consecutive gradients before falls")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Areas stand beside cosines in training."""
    return {}
