"""Every stabilizer beside doing nothing, each at its own best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"league": {"law": ("constant 8", "constant 32")}}
WORDS = {"better": "held", "equal": "effect", "worse": "violated"}
"""The color of each word; undecided has none."""
TITLES = {"bandit": "bandit", "graded": "graded sequences", "sparse": "sparse sequences"}
NAMES = {"GAC": "GAC with skips", "full IS, sequence": "untruncated IS"}
"""Arms that are called otherwise: `rivals` has a GAC that never skips a batch."""
SHORT = {"constant 8": "8", "constant 32": "32"}
"""Distributions of staleness that are drawn; the others are numbers."""
OLD = "constant 32"


def named(arm: str) -> str:
    """What an arm is called."""
    return NAMES.get(arm) or _methods.called(arm)


def order(rows: Any) -> list[str]:
    """Arms by their mean difference at stale places, the best first."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    means: Any = stale.groupby("arm").difference.mean().sort_values(ascending=False, kind="stable")
    return list(means.index)


def cells(ax: Axes, rows: Any, arms: list[str], column: str, names: dict[str, str]) -> None:
    """A line for each arm and a column for each name: differences, in a stronger color where they are larger."""
    for row in rows[rows.arm.isin(arms) & rows[column].isin(list(names)) & rows.word.notna()].itertuples():
        x, y = list(names).index(getattr(row, column)), arms.index(row.arm)
        strong = 1.0 if row.word == "equal" else 0.15 + 0.45 * min(1.0, abs(row.difference) / 0.2)
        color = _style.COLORS[WORDS[row.word]] if row.word in WORDS else "none"
        ax.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, facecolor=color, alpha=strong, linewidth=0))
        size = f"{row.difference:+.2f}".replace("-", "−") if abs(row.difference) >= 0.005 else "0.00"
        ink = look.INK if row.word in WORDS else look.COLOR["muted"]
        look.say(ax, x, y, size, ink, ha="center", fontsize=7)
    ax.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(arms) - 0.5, -0.5))
    ax.set_xticks(range(len(names)), list(names.values()))
    ax.set_yticks(range(len(arms)), [named(arm) for arm in arms])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def key(figure: Figure) -> None:
    """What the colors mean, below the title."""
    said = {"better": "better than RLOO", "equal": f"equal: interval within ±{league.SMALLEST:g}"}
    said["worse"] = "worse: interval below 0, not equal"
    marks = [Patch(color=_style.COLORS[color], alpha=0.6, label=said[word]) for word, color in WORDS.items()]
    marks.append(Patch(facecolor="none", linewidth=0, label="grey number: undecided"))
    look.below(figure, marks)


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    arms = order(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.2 + 0.16 * len(arms))
        axes = figure.subplots(1, len(TITLES), sharey=True)
        for ax, (task, title) in zip(axes, TITLES.items(), strict=True):
            cells(ax, _script.pick(rows, task=task), arms, "law", SHORT)
            ax.set_title(title)
        axes[1].set_xlabel("staleness (versions); numbers: mean return of batches minus that of RLOO")
        words = rows[rows.law.isin(list(SHORT)) & (rows.arm != league.BASE)].word.dropna()
        rare = 0 < len(words) >= 10 * (words == "better").sum()
        _script.headline(figure, rare, "Tuned stabilizers beside plain RLOO")
        key(figure)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many arms win and lose at stale places, which win, and by how much."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh")]
    judged = stale[stale.word.notna()]
    found = {word: str(int((judged.word == word).sum())) for word in (*WORDS, "undecided")}
    wins = judged[judged.word == "better"]
    drawn = int(judged.law.isin(list(SHORT)).sum())
    found |= {"judged": str(len(judged)), "drawn": str(drawn), "old": SHORT[OLD], "smallest": f"{league.SMALLEST:g}"}
    found["gain"] = f"{wins.difference.max():.3f}" if len(wins) else "0"
    open_ends = judged[judged.word == "undecided"].high
    found |= {"reach": f"{open_ends.median():.2f}", "reach_most": f"{open_ends.max():.2f}"}
    return found | {"table": table(judged)}


def table(judged: Any) -> str:
    """Arms by how many comparisons each wins, loses and leaves open; those that are alike share a line."""
    words = ("better", "worse", "equal", "undecided")
    lines: dict[tuple[int, ...], list[str]] = {}
    for arm, own in judged.groupby("arm"):
        win, *rest = (int((own.word == word).sum()) for word in words)
        lines.setdefault((-win, *rest), []).append(named(str(arm)))
    cells = [(", ".join(arms), -win, *rest) for (win, *rest), arms in sorted(lines.items())]
    head = ["| methods | wins of each | losses | equal | undecided |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(map(str, row))} |" for row in cells)])


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a stabilizer is better than RLOO, by task and staleness, GAC also alone; worse and equal ones are not."""
    stale = rows[(rows.arm != league.BASE) & (rows.law != "fresh") & rows.word.notna()]
    better = [decided(row.word == "better", row.word in ("worse", "equal")) for row in stale.itertuples()]
    places = [(row.task, f"staleness {SHORT.get(row.law, row.law)}") for row in stale.itertuples()]
    found = [Setting(*each) for each in zip(places, better, strict=True)]
    return {"better": found, "gac": [each for each, arm in zip(found, stale.arm, strict=True) if arm == "GAC"]}
