"""Which column of a log is which."""

from __future__ import annotations

from collections.abc import Mapping

from asyncsim.base import checks
from asyncsim.schedules._log_cells import Cells, listed
from asyncsim.schedules._log_stacks import COLUMNS, Stack


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
            checks.require(
                not lacking,
                f"columns[{ours}]",
                mapping[ours],
                "a column of the file: " + _listing(names),
                "correct the name",
            )
            columns[ours] = mapping[ours]
            continue
        for theirs in (*stack.columns.get(ours, ()), ours):
            if all(name in names for name in theirs.split("+")):
                columns[ours] = theirs
                break
    return columns


def _listing(names: list[str]) -> str:
    return ", ".join(names[: checks.MANY]) + (", ..." if len(names) > checks.MANY else "")


def cells(table: Mapping[str, Cells], name: str) -> Cells:
    """One column, or several joined into tuples."""
    if "+" not in name:
        return table[name]
    return list(zip(*(listed(table[part]) for part in name.split("+")), strict=True))
