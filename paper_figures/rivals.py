"""VCPO and GAC beside the methods that their papers are compared with, each at its best learning rate."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import league, rivals
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.league import WORDS

EXPERIMENTS = {"rivals": {"law": "constant 32"}}
TASKS = {"bandit": "bandit", "graded": "graded", "sparse": "sparse"}
NAMES = {"VCPO": "VCPO", "GAC": "GAC on RLOO (projection only)"}
"""Bases; the league has the GAC that skips."""
LOOKS: dict[str, dict[str, Any]] = {"RLOO": _methods.look("RLOO"), "fresh": look.SYNCHRONOUS}
LAW = "constant 32"
"""The distribution of staleness that is drawn; under the heavy-tailed one little is decided."""


def judged(rows: Any, base: str) -> Any:
    """Rivals of a base that were compared, fresh data apart."""
    own = _script.pick(rows, base=base)
    return own[own.word.notna() & (own.arm != "fresh")]


def nowhere(rows: Any) -> bool:
    """Whether neither VCPO nor GAC beats RLOO, to which they are applied, on any task."""
    plain = [_script.pick(rows, base=base, arm="RLOO", law=LAW).word.dropna() for base in rivals.BASES]
    return all(len(own) and own.isin(["equal", "better"]).all() for own in plain)


def draw_base(ax: Axes, rows: Any, base: str) -> None:
    """Differences from a base by task: of RLOO on stale and on fresh data; other rivals are numbers."""
    own = _script.pick(rows, base=base, law=LAW).dropna(subset="difference")
    for y, task in enumerate(TASKS):
        here = own[own.task == task].assign(value=own.difference)
        for arm, side in (("fresh", -0.13), ("RLOO", 0.13)):
            if (here.arm == arm).any():
                look.points(ax, [y + side], here[here.arm == arm], sideways=True, **LOOKS[arm])
    ax.set(ylim=(len(TASKS) - 0.5, -0.5), title=NAMES[base])
    ax.set_xlabel(f"mean return minus that of {NAMES[base].partition(' (')[0]}")
    look.ticks(ax.yaxis, range(len(TASKS)), list(TASKS.values()))
    look.side(ax, f"right: better than {base}", y=0.92)


def draw(rows: Any) -> Figure:
    """A panel for each base."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.5)
        axes = figure.subplots(1, len(rivals.BASES), sharex=True, sharey=True)
        for ax, base in zip(axes, rivals.BASES, strict=True):
            draw_base(ax, rows, base)
        _script.headline(figure, nowhere(rows), "RLOO beside each method at its best rate, on stale data")
        shown = {"RLOO on stale data": LOOKS["RLOO"], "RLOO on fresh data": LOOKS["fresh"]}
        look.legend(figure, axes, shown, league.SMALLEST)
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
            Setting((row.task, _methods.called(row.arm)), decided(row.word == "worse", row.word in ("better", "equal")))
            for row in own[own.law == LAW].itertuples()
        ]
    return found
