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
NAMES = {"VCPO": "VCPO", "GAC": "GAC (projection only)"}
"""Bases; the league has the GAC that skips."""
LOOKS: dict[str, dict[str, Any]] = {"RLOO": _methods.look("RLOO"), "fresh": look.SYNCHRONOUS}
LAW = "constant 32"
"""The distribution of staleness that is drawn; under the heavy-tailed one little is decided."""


def judged(rows: Any, base: str) -> Any:
    """Rivals of a base that were compared, fresh data apart."""
    own = _script.pick(rows, base=base)
    return own[own.word.notna() & (own.arm != "fresh")]


def nowhere(rows: Any) -> bool:
    """Whether VCPO and GAC beat some rival on each task, and nowhere RLOO, to which they are applied."""
    plain = [_script.pick(rows, base=base, arm="RLOO", law=LAW).word.dropna() for base in rivals.BASES]
    known = [judged(rows, base) for base in rivals.BASES]
    beaten = all(set(own.task[(own.law == LAW) & (own.word == "worse")]) == set(TASKS) for own in known)
    return beaten and all(len(own) and own.isin(["equal", "better"]).all() for own in plain)


def draw_base(ax: Axes, rows: Any, base: str) -> None:
    """Differences from a base by task: of RLOO, of fresh data, and of the best and the worst of all others."""
    own = _script.pick(rows, base=base, law=LAW).dropna(subset="difference")
    for y, task in enumerate(TASKS):
        here = own[own.task == task].assign(value=own.difference).sort_values("difference")
        for arm, side in (("fresh", -0.3), ("RLOO", -0.1)):
            if (here.arm == arm).any():
                look.points(ax, [y + side], here[here.arm == arm], sideways=True, **LOOKS[arm])
        others = here[here.arm.notna() & ~here.arm.isin(list(LOOKS))]
        for place, side in ((-1, 0.1), (0, 0.3)) if len(others) > 1 else ():
            name, row = _methods.called(others.arm.iloc[place]), others.iloc[[place]]
            style = _methods.look(name)
            look.points(ax, [y + side], row, sideways=True, **style)
            right = max(row.high.iloc[0], league.SMALLEST) + 0.02
            look.say(ax, right, y + side, name, style["color"])
    ax.set(xlim=(-0.6, 0.62), ylim=(len(TASKS) - 0.5, -0.5), title=NAMES[base])
    ax.set_xlabel(f"mean return minus that of {NAMES[base]}")
    look.ticks(ax.yaxis, range(len(TASKS)), list(TASKS.values()))
    look.side(ax, f"right: better than {base}", y=0.965)


def draw(rows: Any) -> Figure:
    """A panel for each base."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.3)
        axes = figure.subplots(1, len(rivals.BASES), sharex=True, sharey=True)
        for ax, base in zip(axes, rivals.BASES, strict=True):
            draw_base(ax, rows, base)
        _script.headline(figure, nowhere(rows), "Rivals beside each method at its best rate, on stale data")
        shown = {"RLOO on stale data": LOOKS["RLOO"], "RLOO on fresh data": LOOKS["fresh"]}
        shown["named: best and worst other method"] = {"marker": "none"}
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
