"""Every stabilizer beside doing nothing, each at its own best learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _script

EXPERIMENTS = ("league",)
WORDS = {"better": "held", "equal": "effect", "worse": "violated", "undecided": "partial"}
"""The color of each word."""
TITLES = {"bandit": "bandit", "graded": "graded sequences", "sparse": "sparse sequences"}
SHORT = {"fresh": "0", "constant 8": "8", "constant 32": "32", "sawtooth": "0 to 16", "heavy": "heavy"}
STALE = [law for law in SHORT if law != "fresh"]


def order(rows: Any) -> list[str]:
    """Arms by their mean difference at stale places, the best first."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    means: Any = stale.groupby("arm").difference.mean().sort_values(ascending=False, kind="stable")
    return list(means.index)


def draw_task(ax: Axes, rows: Any, task: str, arms: list[str]) -> None:
    """A line for each arm, a column for each law; a stronger color is a larger difference."""
    for row in _script.pick(rows, task=task).itertuples():
        if row.arm not in arms:
            continue
        at = (list(SHORT).index(row.law), arms.index(row.arm))
        known = row.word in WORDS
        strong = 1.0 if row.word in ("equal", "undecided") else 0.35 + 0.65 * min(1.0, abs(row.difference) / 0.2)
        color = _style.COLORS[WORDS[row.word]] if known else "white"
        ax.add_patch(_cell(at, color, strong))
    ax.set(xlim=(-0.5, len(SHORT) - 0.5), ylim=(len(arms) - 0.5, -0.5))
    ax.set_xticks(range(len(SHORT)), list(SHORT.values()), rotation=45)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(TITLES[task])


def _cell(at: tuple[int, int], color: str, strong: float) -> Patch:
    from matplotlib.patches import Rectangle

    return Rectangle((at[0] - 0.45, at[1] - 0.42), 0.9, 0.84, color=color, alpha=strong, linewidth=0)


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    arms = order(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 0.9 + 0.165 * len(arms))
        axes = figure.subplots(1, len(TITLES), sharey=True)
        for ax, task in zip(axes, TITLES, strict=True):
            draw_task(ax, rows, task, arms)
        axes[0].set_yticks(range(len(arms)), arms)
        axes[1].set_xlabel("staleness in updates")
        marks = [Patch(color=_style.COLORS[color], label=word) for word, color in WORDS.items()]
        figure.legend(handles=marks, loc="outside upper left", ncols=4, title="Against RLOO, each at its best rate")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many arms win, tie and lose at stale places, and the best and worst of them."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    judged = stale[stale.word.notna()]
    counts = {word: int((judged.word == word).sum()) for word in WORDS}
    arms, wins = order(rows), judged[judged.word == "better"]
    found = {word: str(count) for word, count in counts.items()} | {"judged": str(len(judged))}
    found |= {"arms": str(len(arms)), "first": arms[0], "last": arms[-1]}
    never = [arm for arm in arms if not (judged[judged.arm == arm].word == "worse").any()]
    found["never_worse"] = ", ".join(never) if never else "none"
    found["winners"] = str(wins.arm.nunique())
    for name, key in (("VCPO", "vcpo"), ("GAC", "gac"), ("PPO", "ppo"), ("M2PO", "m2po"), ("TBA", "tba")):
        own = judged[judged.arm == name]
        found[key] = " / ".join(str(int((own.word == word).sum())) for word in ("better", "equal", "worse"))
    base = rows[rows.arm == league.BASE]
    lost = base.pivot_table(index="task", columns="law", values="mean")
    found["cost"] = f"{float(np.nanmax((lost['fresh'] - lost['constant 32']).to_numpy())):.2f}"
    return found
