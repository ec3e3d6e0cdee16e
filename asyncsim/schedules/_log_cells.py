"""Columns of a log as they are read: arrays of numbers, numbered texts, or lists of whatever the cells hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks

MISSING = np.iinfo(np.int64).min
"""Marks a missing value in a column of integers."""
EXACT = 1 << 53
"""Integers below it are floats as well."""


class Coded(NamedTuple):
    """A column of texts: the number of the text in every row, -1 where the cell is empty, and the texts."""

    number: np.ndarray
    texts: list[str]


Cells = list[Any] | np.ndarray | Coded
"""Integers have `MISSING`, floats NaN where a cell is empty; lists None."""


def listed(cells: Cells) -> list[Any]:
    """A column as plain values, None where a cell is empty."""
    if isinstance(cells, Coded):
        texts = [*cells.texts, None]
        return [texts[number] for number in cells.number.tolist()]
    if isinstance(cells, list):
        return cells
    gone = empty(cells)
    return [None if none else value for value, none in zip(cells.tolist(), gone.tolist(), strict=True)]


def absent(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def empty(cells: Cells) -> np.ndarray:
    """Which cells are empty, bool `[n]`."""
    if isinstance(cells, Coded):
        blank = [number for number, text in enumerate(cells.texts) if text == ""]
        return np.isin(cells.number, [-1, *blank])
    if isinstance(cells, list):
        return np.array([absent(value) for value in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind == "f" else cells == MISSING


def each(cells: Cells, read: Callable[[Any, int], Any], kind: Any) -> np.ndarray | None:
    """A column whose distinct texts were read once each, `read(text, first row)`; None for one that is not `Coded`."""
    if not isinstance(cells, Coded):
        return None
    first = np.zeros(len(cells.texts), dtype=np.int64)
    first[cells.number[::-1]] = np.arange(len(cells.number))[::-1]
    values = [read(text, int(row)) for text, row in zip(cells.texts, first, strict=True)]
    return np.array([*values, read(None, 0)], dtype=kind)[cells.number]


def whole(field: str, value: Any, row: int) -> int:
    """A cell as an integer; whole floats and text are read as such."""
    try:
        number = int(value) if isinstance(value, (int, str)) else int(float(value))
        fits = not isinstance(value, bool) and number == float(value) and abs(number) < EXACT
    except (TypeError, ValueError, OverflowError):
        fits = False
    checks.require(fits, f"{field}, row {row + 1}", value, "an integer", "leave the cell empty where it is unknown")
    return number


def integers(field: str, cells: Cells) -> np.ndarray:
    """A column of integers, int64; `MISSING` where a cell is empty or -1."""

    def read(value: Any, row: int) -> int:
        return MISSING if absent(value) else whole(field, value, row)

    array = each(cells, read, np.int64)
    if array is None and isinstance(cells, np.ndarray):
        gone = empty(cells)
        with np.errstate(invalid="ignore"):
            good = gone | ((np.abs(cells) < EXACT) & (np.floor(cells) == cells))
        if not good.all():
            row = int(np.argmin(good))
            whole(field, cells[row].item(), row)
        array = np.where(gone, 0, cells).astype(np.int64)
        array[gone] = MISSING
    if array is None:
        array = np.array([read(value, row) for row, value in enumerate(listed(cells))], dtype=np.int64)
    array[array == -1] = MISSING
    return array


def seconds(field: str, cells: Cells) -> np.ndarray:
    """A column of numbers, float64; NaN where a cell is empty."""
    remedy = "leave the cell empty where it is unknown"

    def read(value: Any, row: int) -> float:
        try:
            number = math.nan if absent(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise checks.InputError(f"{field}, row {row + 1}", value, "a number", remedy) from None
        checks.require(not math.isinf(number), f"{field}, row {row + 1}", value, "a finite number", remedy)
        return number

    array = each(cells, read, np.float64)
    if array is None and isinstance(cells, np.ndarray):
        if np.isinf(cells).any():
            row = int(np.argmax(np.isinf(cells)))
            read(cells[row].item(), row)
        array = np.where(empty(cells), np.nan, cells)
    return np.array([read(v, row) for row, v in enumerate(listed(cells))]) if array is None else array


def codes(field: str, cells: Cells) -> np.ndarray:
    """Number of each distinct value in order of appearance, int64."""
    plain = isinstance(cells, np.ndarray) and cells.dtype.kind == "i"
    if (plain or isinstance(cells, Coded)) and not empty(cells).any():
        return ranked(cells.number if isinstance(cells, Coded) else np.asarray(cells))
    numbers: dict[Any, int] = {}
    values = listed(cells)
    for row, value in enumerate(values):
        # Joined columns are tuples.
        fits = not isinstance(value, (list, dict)) and not (
            isinstance(value, tuple) and any(isinstance(part, (list, dict)) for part in value)
        )
        checks.require(fits, f"{field}, row {row + 1}", value, "a number or a text", "log one name for each")
    return np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int64)


def narrow(values: np.ndarray) -> np.ndarray:
    """Integers at half the size where they fit."""
    small = np.iinfo(np.int32)
    wide = not values.size or (values.min() >= small.min and values.max() <= small.max)
    return values.astype(np.int32) if wide else values


def ranked(values: np.ndarray) -> np.ndarray:
    """The same, of integers: 0 for the first that appears, 1 for the next."""
    if (values[1:] >= values[:-1]).all():
        return np.concatenate([[0], np.cumsum(values[1:] != values[:-1])]).astype(np.int64)[: len(values)]
    _, first, member = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member.reshape(-1)]


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct integers in ascending order, and which of them each is; without sorting where they ascend already."""
    if not (values[1:] >= values[:-1]).all():
        found, member = np.unique(values, return_inverse=True)
        return found, member.reshape(-1)
    new = np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
    return values[new], np.cumsum(new) - 1
