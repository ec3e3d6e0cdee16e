"""VCPO and GAC beside the methods that their papers are compared with, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from asyncsim.plotting import _style
from experiments import league, rivals
from paper_figures import _script

EXPERIMENTS = ("rivals",)
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
LAWS = {"constant 32": "32 old", "heavy": "heavy"}
WORDS = {"better": "held", "equal": "effect", "worse": "violated"}
"""Color of what is said of a rival, as in the league; undecided is a dot."""
SAID = {"better": "the row's method is better", "equal": "equal", "worse": "worse"}


def judged(rows: Any, base: str) -> Any:
    """Rivals of a base that were compared, fresh data apart."""
    own = _script.pick(rows, base=base)
    return own[own.word.notna() & (own.arm != "fresh")]


def draw_base(ax: Axes, rows: Any, base: str, arms: list[str], places: list[tuple[str, str]]) -> None:
    """A line for each rival, a column for each place; a stronger color is a larger difference."""
    for row in _script.pick(rows, base=base).itertuples():
        if row.word is None or row.arm not in arms:
            continue
        x, y = places.index((row.task, row.law)), arms.index(row.arm)
        if row.word in WORDS:
            strong = 1.0 if row.word == "equal" else 0.35 + 0.65 * min(1.0, abs(row.difference) / 0.2)
            color = _style.COLORS[WORDS[row.word]]
            ax.add_patch(Rectangle((x - 0.45, y - 0.42), 0.9, 0.84, color=color, alpha=strong, linewidth=0))
        else:
            ax.plot(x, y, ".", color=_style.COLORS["muted"], markersize=2.0)
    ax.set(xlim=(-0.5, len(places) - 0.5), ylim=(len(arms) - 0.5, -0.5), title=f"against {base}")
    ax.set_xticks(range(len(places)), [f"{LAWS[law]}\n{TASKS[task]}" for task, law in places])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def title(rows: Any) -> str:
    """Whether RLOO is nowhere worse than GAC, which is applied to it."""
    plain = _script.pick(rows, base="GAC", arm="RLOO").word.dropna()
    words = "With tuned learning rates, GAC is nowhere better than RLOO without it"
    holds = len(plain) and plain.isin(["equal", "better"]).any() and not (plain == "worse").any()
    return _script.finding(holds, words, "Rivals beside each method at its best rate, on stale data")


def draw(rows: Any) -> Figure:
    """A panel for each base."""
    arms = [arm for arm in rivals.ARMS if (rows.arm == arm).any()]
    places = [(task, law) for task in TASKS for law in LAWS if len(_script.pick(rows, task=task, law=law))]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.2 + 0.165 * len(arms))
        axes = figure.subplots(1, len(rivals.BASES), sharey=True)
        for ax, base in zip(axes, rivals.BASES, strict=True):
            draw_base(ax, rows, base, arms, places)
        axes[0].set_yticks(range(len(arms)), arms)
        marks: list[Any] = [Patch(color=_style.COLORS[color], label=SAID[word]) for word, color in WORDS.items()]
        marks.append(Line2D([], [], linestyle="none", marker=".", color=_style.COLORS["muted"], label="undecided"))
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
