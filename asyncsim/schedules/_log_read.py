"""Tables of logs to typed columns: which column is which, and its cells as integers, seconds or names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.schedules._log_stacks import COLUMNS, Stack

MISSING = np.iinfo(np.int64).min
"""Stands for what a column of integers does not say."""


def candidates(stack: Stack, given: Mapping[str, str]) -> set[str]:
    """Every name that `chosen` may choose."""
    under = [name for ours in COLUMNS for name in (given.get(ours, ours), *stack.columns.get(ours, ()), ours)]
    return {part for name in under for part in name.split("+")}


def chosen(names: list[str], stack: Stack, given: Mapping[str, str]) -> dict[str, str]:
    """For every column of ours that the file has the name it stands under: as given, the trainer's, or our own."""
    found = {}
    for ours in COLUMNS:
        if ours in given:
            lacking = [name for name in given[ours].split("+") if name not in names]
            checks.require(
                not lacking,
                f"columns[{ours}]",
                given[ours],
                "a column of the file: " + _named(names),
                "correct the name",
            )
            found[ours] = given[ours]
            continue
        for theirs in (*stack.columns.get(ours, ()), ours):
            if all(name in names for name in theirs.split("+")):
                found[ours] = theirs
                break
    return found


def _named(names: list[str]) -> str:
    return ", ".join(names[: checks.MANY]) + (", ..." if len(names) > checks.MANY else "")


def cells(table: Mapping[str, list[Any]], name: str) -> list[Any]:
    """One column, or several joined into tuples."""
    if "+" not in name:
        return table[name]
    return list(zip(*(table[part] for part in name.split("+")), strict=True))


def absent(value: Any) -> bool:
    """Whether a cell says nothing."""
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
    found = [MISSING if absent(v) else whole(field, v, row) for row, v in enumerate(values)]
    array = np.array(found, dtype=np.int64)
    return np.where(array == -1, MISSING, array)


def seconds(field: str, values: list[Any]) -> np.ndarray:
    """A column of numbers, float64; NaN where a cell is empty."""
    found = np.empty(len(values))
    for row, value in enumerate(values):
        remedy = "leave the cell empty where it is unknown"
        try:
            found[row] = np.nan if absent(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise checks.InputError(f"{field}, row {row + 1}", value, "a number", remedy) from None
        checks.require(not np.isinf(found[row]), f"{field}, row {row + 1}", value, "a finite number", remedy)
    return found


def codes(field: str, values: list[Any]) -> np.ndarray:
    """Number of each distinct value in order of appearance, int64."""
    known: dict[Any, int] = {}
    for row, value in enumerate(values):
        # Joined columns are tuples.
        plain = not isinstance(value, (list, dict)) and not (
            isinstance(value, tuple) and any(isinstance(part, (list, dict)) for part in value)
        )
        checks.require(plain, f"{field}, row {row + 1}", value, "a number or a text", "log one name for each")
    return np.array([known.setdefault(str(value), len(known)) for value in values], dtype=np.int64)
