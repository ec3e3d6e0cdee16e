"""Every stabilizer beside doing nothing, each at its own best learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _script

EXPERIMENTS = ("league",)
WORDS = {"better": "held", "equal": "effect", "worse": "violated"}
"""The color of each word; undecided is a dot."""
FULL, LITTLE = 0.2, 0.05
"""Difference from which on a color is full, and a small one for the legend."""
TITLES = {"bandit": "bandit", "graded": "graded sequences", "sparse": "sparse sequences"}
SHORT = {"fresh": "0", "constant 8": "8", "constant 32": "32", "sawtooth": "0–16", "heavy": "heavy"}
OLD = "constant 32"


def order(rows: Any) -> list[str]:
    """Arms by their mean difference at stale places, the best first."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    means: Any = stale.groupby("arm").difference.mean().sort_values(ascending=False, kind="stable")
    return list(means.index)


def strength(difference: float) -> float:
    """How opaque a difference is drawn."""
    return 0.35 + 0.65 * min(1.0, abs(difference) / FULL)


def draw_task(ax: Axes, rows: Any, task: str, arms: list[str]) -> None:
    """A line for each arm, a column for each law; a stronger color is a larger difference."""
    for row in _script.pick(rows, task=task).itertuples():
        if row.arm not in arms:
            continue
        x, y = list(SHORT).index(row.law), arms.index(row.arm)
        if row.word in WORDS:
            strong = 1.0 if row.word == "equal" else strength(row.difference)
            color = _style.COLORS[WORDS[row.word]]
            ax.add_patch(Rectangle((x - 0.45, y - 0.42), 0.9, 0.84, color=color, alpha=strong, linewidth=0))
        elif row.word == "undecided":
            ax.plot(x, y, ".", color=_style.COLORS["muted"], markersize=2.0)
    ax.set(xlim=(-0.5, len(SHORT) - 0.5), ylim=(len(arms) - 0.5, -0.5))
    ax.set_xticks(range(len(SHORT)), list(SHORT.values()))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(TITLES[task])


def marks() -> list[Any]:
    """What the colors mean."""
    colors = {word: _style.COLORS[color] for word, color in WORDS.items()}
    return [
        Patch(color=colors["better"], alpha=strength(LITTLE), linewidth=0, label=f"better by {LITTLE:g}"),
        Patch(color=colors["equal"], linewidth=0, label=f"equal within {league.SMALLEST:g}"),
        Patch(color=colors["worse"], alpha=strength(LITTLE), linewidth=0, label=f"worse by {LITTLE:g}"),
        Patch(color=colors["worse"], linewidth=0, label=f"by {FULL:g} or more"),
        Line2D([], [], linestyle="none", marker=".", color=_style.COLORS["muted"], label="undecided"),
    ]


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    arms = order(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.0 + 0.16 * len(arms))
        axes = figure.subplots(1, len(TITLES), sharey=True)
        for ax, task in zip(axes, TITLES, strict=True):
            draw_task(ax, rows, task, arms)
        axes[0].set_yticks(range(len(arms)), arms)
        axes[1].set_xlabel("staleness (versions); heavy: mostly 0, at random up to 128")
        found = numbers(rows)
        rare = int(found["better"]) <= 0.1 * int(found["judged"])
        title = _script.finding(
            rare, "Doing nothing (RLOO) is rarely seen to lose on stale data:", "RLOO on stale data loses"
        )
        title += f"\n{found['better']} of {found['judged']} comparisons, but {found['open']} are undecided"
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left"}
        figure.legend(handles=marks(), ncols=5, title=title, columnspacing=1.2, **more)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many arms win, tie and lose at stale places, and the best and worst of them."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    judged = stale[stale.word.notna()]
    found = {word: str(int((judged.word == word).sum())) for word in WORDS}
    arms, losers = order(rows), set(judged[judged.word == "worse"].arm)
    wins = judged[judged.word == "better"]
    found |= {"judged": str(len(judged)), "smallest": f"{league.SMALLEST:g}"}
    found["open"] = f"{100 * float(np.mean(judged.word == 'undecided')):.0f} %" if len(judged) else "none"
    found["winners"] = _script.listed(sorted(set(wins.arm))) or "none"
    found["gain"] = f"{wins.difference.max():.3f}" if len(wins) else "0"
    found["safe"] = _script.listed(arm.replace(", ", " ") for arm in arms if arm not in losers)
    base = rows[rows.arm == league.BASE].set_index(["task", "law"])["mean"]
    cost = {task: base[task, "fresh"] - base[task, OLD] for task in TITLES}
    found["old"] = SHORT[OLD]
    found["cost_low"], found["cost_high"] = f"{min(cost.values()):.2f}", f"{max(cost.values()):.2f}"
    fresh = rows[(rows.arm != league.BASE) & (rows.law == "fresh")]
    found["same"] = str(int((fresh.word == "equal").sum()))
    found["fresh"] = str(len(fresh))
    return found
