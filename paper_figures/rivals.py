"""VCPO and GAC beside the methods that their papers are compared with, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league, rivals
from paper_figures import _script
from paper_figures._claim import Setting, decided
from paper_figures.league import WORDS, cells, key
from paper_figures.vcpo_suite import called

EXPERIMENTS = {"rivals": {"law": "constant 32"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
NAMES = {"VCPO": "VCPO", "GAC": "GAC without skips"}
"""Bases; the league has the GAC that skips."""
LAW = "constant 32"
"""The distribution of staleness that is drawn; under the heavy-tailed one little is decided."""


def judged(rows: Any, base: str) -> Any:
    """Rivals of a base that were compared, fresh data apart."""
    own = _script.pick(rows, base=base)
    return own[own.word.notna() & (own.arm != "fresh")]


def title(rows: Any) -> str:
    """Whether RLOO is nowhere worse than VCPO and GAC, which are applied to it."""
    plain = [_script.pick(rows, base=base, arm="RLOO", law=LAW).word.dropna() for base in rivals.BASES]
    holds = all(len(own) and own.isin(["equal", "better"]).all() for own in plain)
    words = f"Tuned, at staleness {LAW.split()[1]}, neither VCPO nor GAC (without skips) beats plain RLOO (bold row)"
    return _script.finding(holds, words, "Rivals beside each method at its best rate, on stale data")


def order(rows: Any) -> list[str]:
    """Rivals by their mean difference from both bases, the best first."""
    own = rows[(rows.law == LAW) & rows.arm.isin(rivals.ARMS) & (rows.arm != "fresh")]
    means: Any = own.groupby("arm").difference.mean().dropna().sort_values(ascending=False, kind="stable")
    return list(means.index)


def draw(rows: Any) -> Figure:
    """A panel for each base."""
    arms, own = order(rows), _script.pick(rows, law=LAW)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.2 + 0.165 * len(arms))
        for ax, base in zip(figure.subplots(1, len(rivals.BASES), sharey=True), rivals.BASES, strict=True):
            cells(ax, _script.pick(own, base=base), arms, "task", TASKS)
            ax.set_title(f"mean return minus that of {NAMES[base]}")
        plain = [each for each in figure.axes[0].get_yticklabels() if each.get_text() == "RLOO"]
        for each in plain:
            each.set_fontweight("bold")
        key(figure, title(rows), "the panel's method")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """How many rivals are better, equal and worse than each base, at constant and at heavy-tailed staleness."""
    found = {"smallest": f"{league.SMALLEST:g}", "old": LAW.split()[1]}
    for base in rivals.BASES:
        every = judged(rows, base)
        for law, own in (("old", every[every.law == LAW]), ("heavy", every[every.law != LAW])):
            key = f"{base.lower()}_{law}"
            found |= {f"{key}_{word}": str(int((own.word == word).sum())) for word in (*WORDS, "undecided")}
            found[key] = str(len(own))
    fresh = _script.pick(rows, base="GAC", arm="fresh", law=LAW).dropna(subset="difference")
    return found | {"gac_fresh_better": str(int((fresh.word == "better").sum())), "places": str(len(fresh))}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether VCPO and GAC return more than each rival at constant staleness, by task."""
    found: dict[str, list[Setting]] = {}
    for base in rivals.BASES:
        own = judged(rows, base)
        found[base.lower()] = [
            Setting((row.task, called(row.arm)), decided(row.word == "worse", row.word in ("better", "equal")))
            for row in own[own.law == LAW].itertuples()
        ]
    return found
