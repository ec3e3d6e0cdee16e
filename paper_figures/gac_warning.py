"""Cosine of consecutive gradients before runs of RLOO fall, and how well it and other scores warn of falls."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.gac_cosine import KINDS, LATE, LEAD, NAMES, SCORES, least, warned
from paper_figures.gac_steps import points
from paper_figures.vcpo_collapse import SURE

EXPERIMENTS = {"gac_steps": {"part": "warning", "arm": ("RLOO", "cosine", "ESS", "return", "staleness")}}


def axis(ax: Axes) -> None:
    """Updates until the fall, which is at the right end."""
    ax.set(xlim=(-31.5, 1.5), xlabel="updates until the run falls (loses half of its gain)")
    look.ticks(ax.xaxis, (-30, -20, -15, -10, -5, 0), ["30", "20", "15", "10", "5", "0"])


def draw_before(ax: Axes, rows: Any) -> None:
    """Mean cosine before falls, beside runs that never fall, at the same updates."""
    names: dict[str, tuple[float, str]] = {}
    for quantity, (name, color, marker) in KINDS.items():
        own = warned(rows, quantity, LATE, rate=least(rows)).sort_values("lead")
        points(ax, -own.lead, own, color=look.COLOR[color], marker=marker)
        names |= {name: (own.value.iloc[0], look.COLOR[color])} if len(own) else {}
    ax.set(
        ylim=(0.0, 1.0), ylabel="cosine of consecutive gradients", title=f"Staleness {LATE}: mean cosine of RLOO's runs"
    )
    axis(ax)
    look.ends(ax, names, 0.11)


def draw_areas(ax: Axes, rows: Any) -> None:
    """Areas of four scores over leads, pooled over staleness."""
    names = {}
    for place, (score, style) in enumerate(SCORES.items()):
        own = warned(rows, "area", arm=score).sort_values("lead")
        points(ax, 0.3 * (place - 1.5) - own.lead, own, **style)
        names |= {NAMES[score]: (own.value.iloc[0], style["color"])} if len(own) else {}
        for row in own[own.high_end < 0.5].itertuples():
            look.say(ax, 1.2 - row.lead, row.value, "below chance", style["color"])
    ax.axhline(0.5, **_style.REFERENCE)
    look.say(ax, 0.0, 0.44, "chance", look.COLOR["muted"], ha="right")
    ax.set(ylim=(0.0, 1.12), ylabel="AUC: probability that a falling\nrun scores higher than a healthy one")
    ax.set_title("Four scores; runs of staleness 0 to 32")
    axis(ax)
    look.ends(ax, names, 0.11)


def draw(rows: Any) -> Figure:
    """Cosines before falls, and areas of scores."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        left, right = figure.subplots(1, 2)
        draw_before(left, rows)
        draw_areas(right, rows)
        # Short runs have no falls to warn of, and then neither area.
        cosine, alone = (warned(rows, "area", arm=score, lead=LEAD).value.mean() for score in ("cosine", "staleness"))
        _script.headline(figure, 0.6 < cosine < alone, "Cosine of consecutive gradients before falls of RLOO")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Areas stand beside cosines in training."""
    return {}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a high cosine ranks runs before falls, by staleness, learning rate and updates ahead."""
    own = _script.pick(rows, part="warning", quantity="area", arm="cosine").dropna(subset="staleness")
    found = []
    for row in own[own.lead > 0].sort_values(["staleness", "rate", "lead"]).itertuples():
        place = (f"staleness {row.staleness:.0f}, rate {row.rate:g}", f"{row.lead:.0f}")
        found.append(Setting(place, decided(row.low_end > SURE, row.high_end < SURE)))
    return {"warns": found}
