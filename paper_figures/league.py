"""Every stabilizer beside doing nothing, each at its own best learning rate."""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from asyncsim.plotting import _style
from experiments import league
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"league": {"law": ("constant 8", "constant 32")}}
WORDS = ("better", "equal", "worse")
COLORED = {"better": "held", "equal": "effect", "undecided": "muted", "worse": "violated"}
SHADE = {"equal": 1.0, "undecided": 0.25}
"""The color of each word, in the order of the bars, and how strong it is."""
TITLES = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
NAMES = {"GAC": "GAC with skips", "full IS, sequence": "untruncated IS"}
"""Arms that are called otherwise: `rivals` has a GAC that never skips a batch."""
SHORT = {"constant 8": "8", "constant 32": "32"}
"""Distributions of staleness that are drawn; the others are numbers."""
OLD = "constant 32"


def named(arm: str) -> str:
    """What an arm is called."""
    return NAMES.get(arm) or _methods.called(arm)


def counts(ax: Axes, rows: Any) -> None:
    """For each task and staleness, how many arms are better than RLOO, equal, undecided and worse; winners by name."""
    names = []
    for task, law in itertools.product(TITLES, SHORT):
        own = _script.pick(rows, task=task, law=law)
        own, y, left = own[(own.arm != league.BASE) & own.word.notna()], len(names), 0
        names.append(f"{TITLES[task]}, staleness {SHORT[law]}")
        for word, color in COLORED.items():
            arms = own[own.word == word].sort_values("difference", ascending=False).arm
            ax.barh(y, len(arms), left=left, height=0.75, color=_style.COLORS[color], alpha=SHADE.get(word, 0.6))
            if len(arms):
                look.say(ax, left + len(arms) / 2.0, y, str(len(arms)), look.INK, ha="center")
            left += len(arms)
        if wins := [named(str(arm)) for arm in own[own.word == "better"].sort_values("difference").arm[::-1]]:
            look.say(ax, left + 0.4, y, "better: " + ",\n".join(wins), look.INK)
    ax.set(xlabel="number of stabilizers", xlim=(0.0, 1.24 * rows.arm.nunique()), ylim=(len(names) - 0.5, -0.5))
    look.ticks(ax.xaxis, (0, 5, 10, 15, 20, 25))
    look.ticks(ax.yaxis, range(len(names)), names)
    ax.tick_params(axis="y", length=0)


def key(figure: Figure) -> None:
    """What the colors mean, below the title."""
    said = {"better": "higher mean return than RLOO", "equal": f"equal: difference within ±{league.SMALLEST:g}"}
    said |= {"undecided": "undecided", "worse": "lower"}
    shades = {word: {"color": _style.COLORS[color], "alpha": SHADE.get(word, 0.6)} for word, color in COLORED.items()}
    look.below(figure, [Patch(**shades[word], label=said[word]) for word in COLORED])


def draw(rows: Any) -> Figure:
    """A bar for each task and staleness."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        counts(figure.subplots(), rows)
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
    drawn = judged[judged.law.isin(list(SHORT))].word
    short = {"won": "better", "tied": "equal", "lost": "worse"}
    found |= {name: str(int((drawn == word).sum())) for name, word in short.items()}
    found |= {
        "judged": str(len(judged)),
        "drawn": str(len(drawn)),
        "old": SHORT[OLD],
        "smallest": f"{league.SMALLEST:g}",
    }
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
