"""Records to columns: names inside names, lists of turns, and records that hold a list for every column."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.schedules._log_cells import MISSING, Cells, listed

ROW, CELL, NUMBER = 130, 80, 16
"""Bytes that a row, each of its cells, and each number of a column of numbers take at most until the log is laid out:
measured, beside their texts."""
DEEPEST = 3
"""Lists inside lists that a cell may have: versions are pairs in a list."""
LACKING = object()
"""What a record has for a name that it does not have."""


class Table(NamedTuple):
    """A log: the names of its columns, how many rows it has, and the cells of the columns that were wanted."""

    names: list[str]
    rows: int
    cells: dict[str, Cells]


def inner(record: Any, name: str) -> Any:
    """The value at a name with dots: `run.policy.start` of nested records; of a list, the values of its entries.

    >>> inner({"turns": [{"version": 3}, {"version": 4}]}, "turns.version")
    [3, 4]
    """
    if isinstance(record, Mapping):
        if name in record:
            return record[name]
        head, _, rest = name.partition(".")
        return inner(record[head], rest) if rest and head in record else LACKING
    if isinstance(record, list):
        values = [inner(entry, name) for entry in record]
        return LACKING if not values or any(value is LACKING for value in values) else values
    return LACKING


class Collected:
    """Rows as they are read, within a budget of memory."""

    def __init__(self, wanted: set[str], budget: files.Budget) -> None:
        self.wanted, self.budget = wanted, budget
        self.nested = sorted(name for name in wanted if "." in name)
        self.names: dict[str, None] = {}
        self.cells: dict[str, list[Any]] = {}
        self.rows = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """One row."""
        # Add columns that are new.
        if record.keys() - self.names.keys():
            self.names.update(dict.fromkeys(map(str, record)))
            self._open(self.wanted & record.keys())
        picked = {}
        for name in self.nested:
            if name not in record and (value := inner(record, name)) is not LACKING:
                picked[name] = value
        if picked.keys() - self.names.keys():
            self.names.update(dict.fromkeys(picked))
            self._open(picked.keys())
        # Append the row within the budget.
        self.budget.take(2 * ROW + CELL * len(self.cells))
        for name, column in self.cells.items():
            value = picked[name] if name in picked else record.get(name)
            column.append(value)
            if isinstance(value, (str, list, dict)):
                self.budget.take(weight(value))
        self.rows += 1

    def _open(self, names: Any) -> None:
        self.cells |= {name: [None] * self.rows for name in names - self.cells.keys()}

    def table(self) -> Table:
        """What was collected."""
        return Table(list(self.names), self.rows, dict(self.cells))


def weight(value: Any, depth: int = 0) -> int:
    """Bytes of a cell."""
    if not isinstance(value, (list, dict)):
        return 8 + sys.getsizeof(value)
    if depth == DEEPEST:
        raise ValueError(f"a cell with more than {DEEPEST} lists inside one another")
    inside = value if isinstance(value, list) else value.values()
    return sys.getsizeof(value) + sum(weight(each, depth + 1) for each in inside)


def spread(table: Table, where: str) -> Table:
    """Records that hold a list for every column, one entry a sample, as one row for each sample."""
    cells: dict[str, list[Any]] = {name: [] for name in table.cells}
    plain = {name: listed(column) for name, column in table.cells.items()}
    for row in range(table.rows):
        values = {name: column[row] for name, column in plain.items()}
        lengths = {name: len(value) for name, value in values.items() if isinstance(value, list)}
        size = max(lengths.values(), default=1)
        odd = next((name for name, length in lengths.items() if length != size), None)
        fits = odd is None
        bound = f"{size} entries, as the other columns of the record have"
        remedy = "write one entry for each sample in every column"
        checks.require(fits, f"{where}, record {row + 1}, column {odd}", lengths.get(odd or "", 0), bound, remedy)
        for name, value in values.items():
            cells[name] += value if isinstance(value, list) else [value] * size
    return Table(table.names, len(next(iter(cells.values()), [])), dict(cells))


def joined(tables: list[Table]) -> Table:
    """One table of the rows of several, which it takes apart; a column that one of them lacks is empty there."""
    if len(tables) == 1:
        return tables[0]
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    wanted = dict.fromkeys(name for table in tables for name in table.cells)
    # Parts of a column are gone before the next one is joined: all at once would double the memory of a long log.
    cells = {name: _behind([(table.cells.pop(name, None), table.rows) for table in tables]) for name in wanted}
    return Table(names, sum(table.rows for table in tables), cells)


def _behind(parts: list[tuple[Cells | None, int]]) -> Cells:
    """One column of the parts, one behind the other; where a part lacks it, its rows are empty."""
    kinds = {part.dtype.kind if isinstance(part, np.ndarray) else "" for part, _ in parts if part is not None}
    if len(kinds) == 1 and kinds != {""}:
        none = MISSING if kinds == {"i"} else np.nan
        return np.concatenate([np.full(rows, none) if part is None else np.asarray(part) for part, rows in parts])
    return [value for part, rows in parts for value in ([None] * rows if part is None else listed(part))]
