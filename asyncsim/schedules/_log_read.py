"""Which column of a log is which."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules._log_cells import Cells, Coded, listed, ranked
from asyncsim.schedules._log_stacks import COLUMNS, Stack

IDS = ("sample_id", "group_id")
"""Columns that only name rows: what joins them may be any number for each."""


def candidates(stack: Stack, mapping: Mapping[str, str]) -> set[str]:
    """Every name that `choose` may choose."""
    names = [name for ours in COLUMNS for name in (mapping.get(ours, ours), *stack.columns.get(ours, ()), ours)]
    return {part for name in names for part in name.split("+")}


def choose(names: list[str], stack: Stack, mapping: Mapping[str, str]) -> dict[str, str]:
    """Name in the file of every column of ours: as mapped, the trainer's, or our own."""
    columns = {}
    for ours in COLUMNS:
        if ours in mapping:
            reason = stack.traps.get((ours, mapping[ours]))
            checks.require(
                reason is None, f"columns[{ours}]", mapping[ours], "the right column of this trainer", str(reason)
            )
            lacking = [name for name in mapping[ours].split("+") if name not in names]
            bound = "a column of the file: " + _listing(names)
            checks.require(not lacking, f"columns[{ours}]", mapping[ours], bound, "correct the name")
            columns[ours] = mapping[ours]
            continue
        for theirs in (*stack.columns.get(ours, ()), ours):
            if all(name in names for name in theirs.split("+")):
                columns[ours] = theirs
                break
    return columns


def _listing(names: list[str]) -> str:
    return ", ".join(names[: checks.MANY]) + (", ..." if len(names) > checks.MANY else "")


def cells(table: Mapping[str, Cells], ours: str, name: str) -> Cells:
    """One column, or several joined: into one number for each distinct row where they are ids, else into tuples."""
    if "+" not in name:
        return table[name]
    parts = [table[part] for part in name.split("+")]
    if ours in IDS and all(isinstance(p, Coded) or (isinstance(p, np.ndarray) and p.dtype.kind == "i") for p in parts):
        return _numbered(parts)
    return list(zip(*map(listed, parts), strict=True))


def _numbered(parts: list[Cells]) -> np.ndarray:
    """Number of each distinct row of several columns in order of appearance, int64; an empty cell is a value too."""
    columns = [ranked(part.number if isinstance(part, Coded) else np.asarray(part)) for part in parts]
    number = columns[0]
    for other in columns[1:]:
        # Ranks are below the number of rows, so that no product of two overflows.
        number = ranked(number * (int(other.max(initial=0)) + 1) + other)
    return number
