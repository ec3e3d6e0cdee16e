"""What the claim maps share: a line a claim, a column a verdict, the number that decides."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _claim, _claims
from paper_figures._claim import Claim
from paper_figures._gallery import PLACEHOLDER

_TONES = (_style.COLORS["held"], "#8ab661", "#d9b23c", "#d1690e", _style.COLORS["violated"])
COLORS = dict(zip(_claim.VERDICTS, (*_TONES, _style.COLORS["tuned"], _style.COLORS["muted"]), strict=True))
"""From green to red by how much of a claim is reproduced."""
EXACT = "papers, beside exact results"
WORDS, LETTERS, PAD = 50, 46, 176.0
"""Letters of a claim and of its number, which each have a line, and points that the longest claim takes."""


def experiments(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Whose rows the figures of these claims are drawn from."""
    return tuple(dict.fromkeys(each for script in scripts(claims).values() for each in script.EXPERIMENTS))


def scripts(claims: Iterable[Claim]) -> dict[str, Any]:
    """Figures of these claims, and those that their numbers are taken from, by name."""
    quoted = ((each.figure, *(found[1] for found in PLACEHOLDER.finditer(each.number))) for each in claims)
    names = dict.fromkeys(name for figures in quoted for name in figures if name)
    return {name: importlib.import_module(f"paper_figures.{name}") for name in names}


def quoted(claims: Iterable[Claim], tables: Iterable[Any]) -> dict[str, dict[str, str]]:
    """Numbers of the figures of these claims."""
    rows = dict(zip(experiments(claims), tables, strict=True))
    own = scripts(claims).items()
    return {name: script.numbers(*(rows[each] for each in script.EXPERIMENTS)) for name, script in own}


def draw(claims: Sequence[Claim], tables: Iterable[Any], title: str) -> Figure:
    """Claims of one source stand under its name."""
    found = _claims.rows(quoted(claims, tables), claims)
    sources = [claim["source"] if claim["figure"] else EXACT for claim in found]
    # A line of its own for every source: claims move down by the sources up to theirs.
    begins = [k for k, source in enumerate(sources) if sources.index(source) == k]
    lines = [k + sum(begin <= k for begin in begins) for k in range(len(found))]
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 0.5 + 0.126 * (lines[-1] + 1))
        ax = figure.subplots()
        for column, verdict in enumerate(_claim.VERDICTS):
            own = [line for line, claim in zip(lines, found, strict=True) if claim["verdict"] == verdict]
            ax.scatter([column] * len(lines), lines, marker="s", s=30, color=_style.COLORS["effect"], linewidth=0)
            ax.scatter([column] * len(own), own, marker="s", s=30, color=COLORS[verdict], linewidth=0, label=verdict)
        words = [
            f"{claim['source']}: " * (not claim["figure"]) + claim["text"] + "*" * claim["rebuilt"] for claim in found
        ]
        _labels(ax, lines, words, "left")
        ax.set(xlim=(-0.6, len(_claim.VERDICTS) - 0.4), ylim=(lines[-1] + 0.6, -0.6), xticks=[])
        heads, right = ax.twinx(), ax.twinx()
        _labels(heads, [lines[k] - 1 for k in begins], [sources[k] for k in begins], "left")
        _labels(right, lines, [claim["number"] for claim in found], "right")
        for each in (heads, right):
            each.set_ylim(ax.get_ylim())
        for tick in heads.get_yticklabels():
            tick.set_color(_style.COLORS["muted"])
        figure.legend(loc="outside upper left", ncols=4, handletextpad=0.1, title=title)
        if any(claim["rebuilt"] for claim in found):
            ax.set_xlabel("* judged on our reconstruction", fontsize=7)
    return figure


def _labels(ax: Axes, lines: list[int], words: list[str], side: Literal["left", "right"]) -> None:
    """Words beside lines, flush left on both sides."""
    ax.set_yticks(lines, words)
    ax.yaxis.set_ticks_position(side)
    ax.tick_params(length=0, labelsize=7.0, pad=PAD if side == "left" else 2)
    for tick in ax.get_yticklabels():
        tick.set_horizontalalignment("left")
    ax.spines[:].set_visible(False)
