"""How well the cosine of consecutive gradients and other scores warn of falls of RLOO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.gac_cosine import LEAD, NAMES, SCORES, warned
from paper_figures.gac_steps import points
from paper_figures.vcpo_collapse import SURE

CALLED = {"cosine": "high cosine of\nconsecutive gradients", "staleness": "high staleness\n(fixed per run)"}
EXPERIMENTS = {"gac_steps": {"part": "warning", "arm": ("RLOO", "cosine", "ESS", "return", "staleness")}}


def axis(ax: Axes) -> None:
    """Updates until the fall, which is at the right end."""
    ax.set(xlim=(-31.5, 1.5), xlabel="updates until the run falls (loses half of its gain)")
    look.ticks(ax.xaxis, (-30, -20, -15, -10, -5, 0), ["30", "20", "15", "10", "5", "0"])


def draw_areas(ax: Axes, rows: Any) -> None:
    """Areas of four scores over leads, pooled over staleness."""
    names = {}
    for place, (score, style) in enumerate(SCORES.items()):
        own = warned(rows, "area", arm=score).sort_values("lead")
        points(ax, 0.3 * (place - 1.5) - own.lead, own, **style)
        names |= {CALLED.get(score, NAMES[score]): (own.value.iloc[0], style["color"])} if len(own) else {}
        for row in own[own.high_end < 0.5].itertuples():
            look.say(ax, 1.2 - row.lead, row.value, "below chance", style["color"])
    ax.axhline(0.5, **_style.REFERENCE)
    look.say(ax, 0.0, 0.44, "chance", look.COLOR["muted"], ha="right")
    ax.set(ylim=(0.0, 1.05), ylabel="AUC: probability that a falling\nrun scores higher than a healthy one")
    axis(ax)
    ax.set_xlabel(f"{ax.get_xlabel()}; runs of all staleness values pooled")
    look.ends(ax, names, 0.1)


def draw(rows: Any) -> Figure:
    """Areas of scores before falls."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        draw_areas(figure.subplots(), rows)
        # Short runs have no falls to warn of, and then neither area.
        cosine, *others = (
            warned(rows, "area", arm=score, lead=LEAD).value.mean() for score in ("cosine", "ESS", "staleness")
        )
        _script.headline(figure, 0.6 < cosine < min(others), "Warnings before falls of RLOO")
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
