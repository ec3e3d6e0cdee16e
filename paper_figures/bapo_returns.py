"""Mean returns of every arm less BAPO's on old data, each at its best rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import bapo
from paper_figures import _bapo as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"bapo": {"part": "compare", "law": "constant 32", "tuned": True}}
ORDER = ("released", "start", "clip", "none", "rloo")
DRAWN = ("none", "clip")
"""Arms of the picture; numbers are of all."""
SHARES = ("clip", "bapo", "released", "none")


def laws(rows: Any) -> dict[str, str]:
    """Laws of the comparison with what a panel calls them."""
    stale = arms.laws(rows)[-1]
    return {stale: f"{arms.age(stale)} versions old", "replay": "replayed", "partial": "from partial rollouts"}


def compared(ax: Axes, rows: Any, law: str) -> None:
    """Returns less BAPO's, a line for each arm, a mark for each task."""
    for y, arm in enumerate(DRAWN):
        for side, (task, style) in zip((-0.25, 0.0, 0.25), arms.LOOKS.items(), strict=True):
            row = arms.difference(rows, task=task, law=law, arm=arm)
            if row is not None:
                look.points(ax, [y + side], row.to_frame().T.infer_objects(), sideways=True, **style)
    ax.axvline(0.0, **_style.REFERENCE)
    ax.set(ylim=(len(DRAWN) - 0.5, -0.5), xlabel="mean return over training, minus that of BAPO with target 0.4")
    look.ticks(ax.yaxis, range(len(DRAWN)), [arms.NAMES[arm] for arm in DRAWN])


def draw(rows: Any) -> Figure:
    """All arms beside BAPO on old data."""
    with _style.applied():
        figure, law = _style.picture(_style.WIDTH, 2.2), arms.laws(rows)[-1]
        compared(figure.subplots(), rows, law)
        every = [[arms.difference(rows, task=task, law=law, arm=arm) for task in arms.LOOKS] for arm in DRAWN]
        free, clip = ([row for row in own if row is not None] for own in every)
        better: dict[str, Any] = {"ha": "right", "transform": figure.axes[0].transAxes}
        look.say(figure.axes[0], 0.99, 0.96, "right of 0: better than BAPO", look.COLOR["muted"], **better)
        arms.key(figure)
        holds = all(row.low > 0.0 for row in free) and all(row.low <= 0.0 for row in clip)
        _script.headline(figure, holds, f"Return on data {laws(rows)[law]}, minus BAPO's")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Words against BAPO by arm, positive shares over tasks."""
    names, stale = laws(rows), arms.laws(rows)[-1]
    found = {"staleness": f"{arms.age(stale)}", "smallest": f"{bapo.SMALLEST:g}"}
    places = [(task, law) for law in names for task in arms.LOOKS]
    for arm in ORDER:
        own = [row for task, law in places if (row := arms.difference(rows, task=task, law=law, arm=arm)) is not None]
        found |= {f"{arm}_{word}": f"{sum(row.word == word for row in own)}" for word in ("better", "equal", "worse")}
        found["places"] = f"{len(own)}"
    for arm in SHARES:
        shares = [arms.at_best(rows, "positive", task=task, law=stale, arm=arm).value for task in arms.TASKS]
        found[f"positive_{arm}"] = f"{100 * sum(shares) / len(shares):.0f} %"
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether BAPO with the smaller target beats the clip at tuned rates, by task and data."""
    found = []
    for law in laws(rows):
        for task in arms.LOOKS:
            row = arms.difference(rows, task=task, law=law, arm="clip")
            if row is not None:
                won = decided(row.word == "worse", row.word in ("equal", "better"))
                found.append(Setting(("target 0.4, tuned rates", arms.TASKS[task], arms.told(law)), won))
    return {"ahead": found}
