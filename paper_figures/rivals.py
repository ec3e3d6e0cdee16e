"""VCPO and GAC beside the methods that their papers are compared with, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from asyncsim.plotting import _style
from experiments import league, rivals
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = {"rivals": {"law": "constant 32"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
LAW = "constant 32"
"""The distribution of staleness that is drawn; under the heavy-tailed one little is decided."""
WORDS = {"better": "held", "equal": "effect", "worse": "violated"}
"""Color of what is said of a rival, as in the league; undecided has none."""
SAID = {"better": "better than the panel's method", "equal": f"equal within {league.SMALLEST:g}", "worse": "worse"}


def judged(rows: Any, base: str) -> Any:
    """Rivals of a base that were compared, fresh data apart."""
    own = _script.pick(rows, base=base)
    return own[own.word.notna() & (own.arm != "fresh")]


def draw_base(ax: Axes, rows: Any, base: str, arms: list[str], tasks: list[str]) -> None:
    """A line for each rival, a column for each task; a stronger color is a larger difference."""
    for row in judged(rows, base).itertuples():
        if row.arm not in arms or row.law != LAW:
            continue
        x, y = tasks.index(row.task), arms.index(row.arm)
        strong = 1.0 if row.word == "equal" else 0.15 + 0.45 * min(1.0, abs(row.difference) / 0.2)
        color = _style.COLORS[WORDS[row.word]] if row.word in WORDS else "none"
        ax.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, facecolor=color, alpha=strong, linewidth=0))
        ink = look.INK if row.word in WORDS else look.COLOR["muted"]
        size = f"{row.difference:+.2f}".replace("-", "−") if abs(row.difference) >= 0.005 else "0.00"
        look.say(ax, x, y, size, ink, ha="center", fontsize=7)
    ax.set(xlim=(-0.5, len(tasks) - 0.5), ylim=(len(arms) - 0.5, -0.5), title=f"mean return − that of {base}")
    ax.set_xticks(range(len(tasks)), [TASKS[task] for task in tasks])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def title(rows: Any) -> str:
    """Whether RLOO is nowhere worse than VCPO and GAC, which are applied to it."""
    plain = [_script.pick(rows, base=base, arm="RLOO", law=LAW).word.dropna() for base in rivals.BASES]
    holds = all(len(own) and own.isin(["equal", "better"]).all() for own in plain)
    words = "At staleness 32 and tuned learning rates, neither VCPO nor GAC is better than plain RLOO"
    return _script.finding(holds, words, "Rivals beside each method at its best rate, on stale data")


def order(rows: Any) -> list[str]:
    """Rivals by their mean difference from both bases, the best first."""
    own = rows[(rows.law == LAW) & rows.arm.isin(rivals.ARMS) & (rows.arm != "fresh")]
    means: Any = own.groupby("arm").difference.mean().dropna().sort_values(ascending=False, kind="stable")
    return list(means.index)


def draw(rows: Any) -> Figure:
    """A panel for each base."""
    arms = order(rows)
    tasks = [task for task in TASKS if (rows.task == task).any()]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.2 + 0.165 * len(arms))
        axes = figure.subplots(1, len(rivals.BASES), sharey=True)
        for ax, base in zip(axes, rivals.BASES, strict=True):
            draw_base(ax, rows, base, arms, tasks)
        axes[0].set_yticks(range(len(arms)), [arm.replace("RLOO", "plain RLOO") for arm in arms])
        marks = [Patch(color=_style.COLORS[color], alpha=0.6, label=SAID[word]) for word, color in WORDS.items()]
        marks.append(Patch(facecolor="none", linewidth=0, label="grey number: undecided"))
        figure.legend(handles=marks, loc="outside upper left", ncols=4, title=title(rows), alignment="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many rivals are better, equal and worse than each base, and how fresh data compare."""
    found = {"smallest": f"{league.SMALLEST:g}"}
    for base in rivals.BASES:
        own, key = judged(rows, base), base.lower()
        found |= {f"{key}_{word}": str(int((own.word == word).sum())) for word in (*WORDS, "undecided")}
        found[f"{key}_judged"] = str(len(own))
        fresh = _script.pick(rows, base=base, arm="fresh").dropna(subset="difference")
        found[f"{key}_fresh"] = f"{fresh.difference.min():+.2f} to {fresh.difference.max():+.2f}".replace("-", "−")
    fresh = _script.pick(rows, base="GAC", arm="fresh").dropna(subset="difference")
    return found | {"gac_fresh_better": str(int((fresh.word == "better").sum())), "places": str(len(fresh))}
