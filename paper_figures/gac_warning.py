"""How well the cosine of consecutive gradients and other scores warn of falls of RLOO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.gac_cosine import FIRST, LATE, LEAD, MIDDLE, SCORES, warned
from paper_figures.gac_steps import points
from paper_figures.vcpo_collapse import SURE

CALLED = {"cosine": "high cosine\nof gradients", "return": "low return", "ESS": "low ESS"}
RATE = 0.28
"""The learning rate at which runs at both levels of staleness fall."""
EXPERIMENTS = {"gac_steps": {"part": "warning", "arm": ("RLOO", *CALLED), "staleness": (MIDDLE, LATE), "rate": RATE}}


def axis(ax: Axes) -> None:
    """Updates until the fall, which is at the right end."""
    ax.set(xlim=(-31.5, 1.5), xlabel="updates until the run loses half of its gain")
    look.ticks(ax.xaxis, (-30, -20, -15, -10, -5, 0), ["30", "20", "15", "10", "5", "0"])


def draw_areas(ax: Axes, rows: Any, level: int) -> bool:
    """Areas of three scores over leads within a level of staleness; whether the cosine warns late and not early."""
    names = {}
    for place, score in enumerate(CALLED):
        own, style = warned(rows, "area", level, arm=score, rate=RATE).sort_values("lead"), SCORES[score]
        points(ax, 0.4 * (place - 1) - own.lead, own, **style)
        names |= {CALLED[score]: (own.value.iloc[0], style["color"])} if len(own) else {}
    ax.axhline(0.5, **_style.REFERENCE)
    look.say(ax, 0.0, 0.44, "chance", look.COLOR["muted"], ha="right")
    ax.set(ylim=(0.0, 1.05), title=f"Runs at staleness {level}")
    axis(ax)
    look.ends(ax, names, 0.1)
    own = warned(rows, "area", level, arm="cosine", rate=RATE).set_index("lead")
    return LEAD in own.index and own.low_end[LEAD] > 0.5 and own.value[LEAD] > 0.5 > own.value[FIRST]


def draw(rows: Any) -> Figure:
    """Areas of scores before falls, within two levels of staleness."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2)
        axes[0].set_ylabel("AUC: probability that a falling\nrun scores higher than a healthy one")
        holds = [draw_areas(ax, rows, level) for ax, level in zip(axes, (MIDDLE, LATE), strict=True)]
        _script.headline(figure, all(holds), "Warnings before falls of RLOO, by staleness")
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
