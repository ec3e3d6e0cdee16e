"""Settings of a claim with their answers, as tables of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from paper_figures._claim import MARKS, Setting

MEANING = {True: "holds", False: "does not hold", None: "undecided"}
"""What the marks of a table say."""
FEW, WIDE = 6, 60
"""Settings that are a list rather than a grid, and letters of columns above which these become lines."""
Answers = dict[str, dict[str, list[bool | None]]]
"""Answers by the first parts of a setting's name, then by its last part."""


def placed(settings: Sequence[Setting]) -> str:
    """Settings with their answers, as a table of Markdown: a grid of the last part, or, of a few, a list by answer."""
    answers: Answers = {}
    for each in settings:
        answers.setdefault(", ".join(each.place[:-1]), {}).setdefault(each.place[-1], []).append(each.held)
    names, count = {each.place[-1] for each in settings}, sum(map(len, answers.values()))
    cells = _grid(answers) if count > FEW and 2 * count >= len(answers) * len(names) else _listed(answers)
    cells = [row[1:] for row in cells] if not any(row[0] for row in cells) else cells
    return "\n".join(f"| {' | '.join(row)} |" for row in [cells[0], ["---"] * len(cells[0]), *cells[1:]])


def _listed(answers: Answers) -> list[list[str]]:
    """A line for what comes first, a column for each answer, and in them what comes last; neighbors are a range."""
    marks = [held for held in MARKS if any(held in each for own in answers.values() for each in own.values())]
    rows = [["", *(f"{MARKS[held]} {MEANING[held]}" for held in marks)]]
    for line, own in answers.items():
        parts: dict[bool | None, list[str]] = {held: [] for held in marks}
        for held, run in groupby(((name, held) for name in own for held in dict.fromkeys(own[name])), lambda x: x[1]):
            counts = {name: own[name].count(held) for name, _ in run}
            ranged = len(counts) > 2 and all(map(_value, counts)) and max(counts.values()) == 1
            each = [f"{name} ({count})" if count > 1 else name for name, count in counts.items()]
            parts[held] += [f"{each[0]} to {each[-1]}"] if ranged else each
        rows.append([line, *("; ".join(parts[held]) for held in marks)])
    return rows


def _grid(answers: Answers) -> list[list[str]]:
    """A line for what comes first, a column for what comes last; what all of either name stands in the corner."""
    lines, names = list(answers), list(dict.fromkeys(name for own in answers.values() for name in own))
    tails = {line.rpartition(", ")[2].rpartition(" at ")[2] for line in lines}
    heads = {name.rpartition(" ")[0] for name in names}
    axis = tails.pop() if len(tails) == 1 and all(map(_value, names)) else heads.pop() if len(heads) == 1 else ""
    found = {line: {name: _marked(own[name]) if name in own else "" for name in names} for line, own in answers.items()}
    if all(map(_value, names)):
        # Neighbors on an axis of numbers with the same answers are one column.
        names.sort(key=lambda name: float(_value(name)))
        runs = [list(run) for _, run in groupby(names, lambda name: [own[name] for own in found.values()])]
    else:
        runs = [[name] for name in names]
    heads = [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    rows = [[_without(line, axis), *(own[run[0]] for run in runs)] for line, own in found.items()]
    cells = [[axis, *(_without(head, axis) for head in heads)], *rows]
    wide = len(heads) > len(rows) and sum(map(len, heads)) > WIDE
    return [list(column) for column in zip(*cells, strict=True)] if wide else cells


def _value(name: str) -> str:
    """A number as Python reads it, without thousands, signs of print and times; empty where there is none."""
    text = name.replace(",", "").replace("−", "-").rstrip("×")
    return text if re.fullmatch(r"[-+]?[\d.]+", text) else ""


def _without(name: str, axis: str) -> str:
    """A name without the axis that the corner of a grid names."""
    return re.sub(rf"^{re.escape(axis)} |(?:, | at |^){re.escape(axis)}$", "", name) if axis else name


def _marked(held: Sequence[bool | None]) -> str:
    """Marks of the settings of one name, each with its count where there are several."""
    return ", ".join(
        f"{MARKS[each]} {held.count(each)}" if len(held) > 1 else MARKS[each] for each in MARKS if each in held
    )
