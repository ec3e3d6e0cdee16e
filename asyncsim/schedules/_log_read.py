"""Tables of logs to typed columns: which column is which, and its cells as integers, seconds or names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules._log_stacks import COLUMNS, Stack

MISSING = np.iinfo(np.int64).min
"""Marks a missing value in a column of integers."""


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


def cells(table: Mapping[str, list[Any]], name: str) -> list[Any]:
    """One column, or several joined into tuples."""
    if "+" not in name:
        return table[name]
    return list(zip(*(table[part] for part in name.split("+")), strict=True))


def absent(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def whole(field: str, value: Any, row: int) -> int:
    """A cell as an integer; whole floats and text are read as such."""
    try:
        number = int(value) if isinstance(value, (int, str)) else int(float(value))
        fits = not isinstance(value, bool) and number == float(value) and abs(number) < 1 << 53
    except (TypeError, ValueError, OverflowError):
        fits = False
    checks.require(fits, f"{field}, row {row + 1}", value, "an integer", "leave the cell empty where it is unknown")
    return number


def integers(field: str, values: list[Any]) -> np.ndarray:
    """A column of integers, int64; `MISSING` where a cell is empty or -1."""
    numbers = [MISSING if absent(v) else whole(field, v, row) for row, v in enumerate(values)]
    array = np.array(numbers, dtype=np.int64)
    return np.where(array == -1, MISSING, array)


def seconds(field: str, values: list[Any]) -> np.ndarray:
    """A column of numbers, float64; NaN where a cell is empty."""
    times = np.empty(len(values))
    for row, value in enumerate(values):
        remedy = "leave the cell empty where it is unknown"
        try:
            times[row] = np.nan if absent(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise checks.InputError(f"{field}, row {row + 1}", value, "a number", remedy) from None
        checks.require(not np.isinf(times[row]), f"{field}, row {row + 1}", value, "a finite number", remedy)
    return times


def codes(field: str, values: list[Any]) -> np.ndarray:
    """Number of each distinct value in order of appearance, int64."""
    numbers: dict[Any, int] = {}
    for row, value in enumerate(values):
        # Joined columns are tuples.
        plain = not isinstance(value, (list, dict)) and not (
            isinstance(value, tuple) and any(isinstance(part, (list, dict)) for part in value)
        )
        checks.require(plain, f"{field}, row {row + 1}", value, "a number or a text", "log one name for each")
    return np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int64)
