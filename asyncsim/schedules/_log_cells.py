"""Columns of a log as they are read: arrays of numbers, or lists of other values.

Made of records (names inside names, lists of turns, lists for every column) or of the columns of a library's table.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files

MISSING = np.iinfo(np.int64).min
"""Marks a missing value in a column of integers."""
EXACT = 1 << 53
"""Integers below it are floats as well."""
ROW, CELL, NUMBER = 130, 80, 16
"""Bytes that a row, each of its cells, and each number of a column of numbers take at most until the log is laid out:
measured, beside their texts."""
DEEPEST = 3
"""Lists inside lists that a cell may have: versions are pairs in a list."""
LACKING = object()
"""What a record has for a name that it does not have."""
Cells = list[Any] | np.ndarray
"""Integers have `MISSING`, floats NaN where a cell is empty; lists None."""


def listed(cells: Cells) -> list[Any]:
    """Convert a log's column to plain values, None for empty cells."""
    if isinstance(cells, list):
        return cells
    return [None if none else value for value, none in zip(cells.tolist(), empty(cells).tolist(), strict=True)]


def absent(value: Any) -> bool:
    """Whether a log's cell is empty."""
    return value is None or (isinstance(value, float) and math.isnan(value)) or value == ""


def empty(cells: Cells) -> np.ndarray:
    if isinstance(cells, list):
        return np.array([absent(value) for value in cells], dtype=bool)
    return np.isnan(cells) if cells.dtype.kind == "f" else cells == MISSING


def converted(cells: Cells, read: Callable[[Any, int], Any], kind: Any) -> np.ndarray:
    """Convert a log's column cell by cell with `read(value, row)`."""
    return np.array([read(value, row) for row, value in enumerate(listed(cells))], dtype=kind)


def whole(field: str, value: Any, row: int) -> int:
    """Parse a log's cell as an integer; integral floats and text are accepted."""
    try:
        number = int(value) if isinstance(value, (int, str)) else int(float(value))
        fits = not isinstance(value, bool) and number == float(value) and abs(number) < EXACT
    except (TypeError, ValueError, OverflowError):
        fits = False
    remedy = "write the number, or leave the cell empty"
    remedy = f"write columns='versions={field}', a version per token" if isinstance(value, list) else remedy
    checks.require(fits, f"{field}, row {row + 1}", value, "an integer", remedy)
    return number


def integers(field: str, cells: Cells) -> np.ndarray:
    """Convert a log's column to integers, int64, with `MISSING` for empty cells and -1."""

    def read(value: Any, row: int) -> int:
        return MISSING if absent(value) else whole(field, value, row)

    if isinstance(cells, np.ndarray):
        gone = empty(cells)
        with np.errstate(invalid="ignore"):
            good = gone | ((np.abs(cells) < EXACT) & (np.floor(cells) == cells))
        if not good.all():
            row = int(np.argmin(good))
            whole(field, cells[row].item(), row)
        array = np.where(gone, 0, cells).astype(np.int64)
        array[gone] = MISSING
    else:
        array = converted(cells, read, np.int64)
    array[array == -1] = MISSING
    return array


def seconds(field: str, cells: Cells) -> np.ndarray:
    """Convert a log's column to numbers, float64, with NaN for empty cells."""
    remedy = "leave the cell empty where it is unknown"

    def read(value: Any, row: int) -> float:
        try:
            number = math.nan if absent(value) else float(value)
        except (TypeError, ValueError, OverflowError):
            dated = f"write seconds, as pd.to_datetime(df.{field}).astype('int64') / 1e9, or " * ("-" in str(value)[1:])
            raise checks.InputError(f"{field}, row {row + 1}", value, "a number", dated + remedy) from None
        checks.require(not math.isinf(number), f"{field}, row {row + 1}", value, "a finite number", remedy)
        return number

    if not isinstance(cells, np.ndarray):
        return converted(cells, read, np.float64)
    if np.isinf(cells).any():
        row = int(np.argmax(np.isinf(cells)))
        read(cells[row].item(), row)
    return np.where(empty(cells), np.nan, cells)


def codes(field: str, cells: Cells) -> np.ndarray:
    """Number the distinct values of a log's column in order of appearance; return each cell's number, int64."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "i" and not empty(cells).any():
        return ranked(cells)
    numbers: dict[Any, int] = {}
    values = listed(cells)
    for row, value in enumerate(values):
        # Joined columns are tuples.
        each = value if isinstance(value, tuple) else (value,)
        fits = not any(isinstance(part, (list, dict)) for part in each)
        checks.require(fits, f"{field}, row {row + 1}", value, "a number or a text", "log one name for each")
    return np.array([numbers.setdefault(str(value), len(numbers)) for value in values], dtype=np.int64)


def narrow(values: np.ndarray) -> np.ndarray:
    """Convert integers to half their size in bytes if they fit."""
    small = np.iinfo(np.int32)
    wide = not values.size or (values.min() >= small.min and values.max() <= small.max)
    return values.astype(np.int32) if wide else values


def ranked(values: np.ndarray) -> np.ndarray:
    """Number distinct integers in order of appearance, 0 for the first; return each entry's number."""
    _, first, member = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member.reshape(-1)]


class Table(NamedTuple):
    """A log's table: names of its columns, number of rows, and cells of the requested columns."""

    names: list[str]
    rows: int
    cells: dict[str, Cells]


def inner(record: Any, name: str) -> Any:
    """Value at a dotted name, such as `run.policy.start`, in nested records; for a list, the values of its entries."""
    if isinstance(record, Mapping):
        if name in record:
            return record[name]
        head, _, rest = name.partition(".")
        return inner(record[head], rest) if rest and head in record else LACKING
    if isinstance(record, list):
        values = [inner(entry, name) for entry in record]
        return LACKING if not values or any(value is LACKING for value in values) else values
    return LACKING


def _inside(record: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a record and of the records in it, under names joined by slashes."""
    for name, value in record.items():
        yield from _inside(value, f"{at}{name}/") if isinstance(value, Mapping) else ((f"{at}{name}", value),)


class Collected:
    """Rows of a log collected during reading, within a memory budget.

    In {"step": 1, "data": {"actor/lr": 1e-6}} columns are step and actor/lr (also data.actor/lr); a step may go on.
    """

    def __init__(self, wanted: set[str], budget: files.Budget) -> None:
        self.wanted, self.budget = wanted, budget
        self.nested = sorted(name for name in wanted if "." in name)
        self.names: dict[str, None] = {}
        self.homes: dict[str, str] = {}
        self.last: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
        self.cells: dict[str, list[Any]] = {}
        self.rows = 0

    def add(self, record: Mapping[str, Any]) -> None:
        flat, more = self._flat(record)
        inside = {n: value for n in self.nested if n not in record and (value := inner(record, n)) is not LACKING}
        flat = {**flat, **inside} if inside else flat
        if new := flat.keys() - self.names.keys():
            self.budget.take(CELL * len(new))
            self.names.update(dict.fromkeys(map(str, flat)))
            self.cells |= {name: [None] * self.rows for name in (self.wanted & new) - self.cells.keys()}
        self.budget.take((2 * ROW + CELL * len(self.cells)) * (not more))
        for name, column in self.cells.items():
            if isinstance(value := flat.get(name), (str, list, dict)):
                self.budget.take(weight(value))
            if not more or value is not None:
                column[self.rows - more :] = [value]
        self.rows += not more

    def _flat(self, record: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """The record without records inside, and whether it goes on with the row before."""
        parts = {head: dict(_inside(part)) for head, part in record.items() if isinstance(part, Mapping)}
        if not parts or parts.keys() & self.wanted:
            return record, False
        own = {name: value for name, value in record.items() if name not in parts}
        twice, flat = Counter([*record, *chain(*parts.values())]), dict(own)
        for head, part in parts.items():
            for name, value in part.items():
                # Names that another record has too are those of neither.
                free = twice[name] == 1 and self.homes.setdefault(name, head) == head
                flat[name if free else f"{head}.{name}"] = value
        more = bool(own) and own == self.last[0] and self.last[1].keys() & flat.keys() == own.keys()
        self.last = own, {**self.last[1], **flat} if more else flat
        return flat, more

    def table(self) -> Table:
        return Table(list(self.names), self.rows, dict(self.cells))

    def packed(self) -> Table:
        """Convert the collected rows to a table with numbers as arrays; the freed memory returns to the budget."""
        cells: dict[str, Cells] = {}
        for name, column in self.cells.items():
            cells[name] = column
            kinds = {type(value) for value in column if value is not None}
            # "Not a number" is a value that somebody wrote.
            if kinds <= {int} or kinds == {float}:
                none = MISSING if kinds <= {int} else math.nan
                if all(value is None or abs(value) < EXACT for value in column):
                    cells[name] = np.array([none if value is None else value for value in column])
                    self.budget.left += (CELL - NUMBER) * self.rows
        self.budget.left += ROW * self.rows
        return Table(list(self.names), self.rows, cells)


def weight(value: Any, depth: int = 0) -> int:
    if not isinstance(value, (list, dict)):
        return 8 + sys.getsizeof(value)
    if depth == DEEPEST:
        raise ValueError(f"a cell with more than {DEEPEST} lists inside one another")
    inside = value if isinstance(value, list) else value.values()
    return sys.getsizeof(value) + sum(weight(each, depth + 1) for each in inside)


def spread(table: Table, where: str) -> Table:
    """Expand log records with a list per column, one entry per sample, to one row per sample."""
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
    return Table(table.names, len(next(iter(cells.values()), range(table.rows))), dict(cells))


def joined(tables: list[Table]) -> Table:
    """Concatenate the rows of several tables, which are emptied; missing columns become empty cells."""
    if len(tables) == 1:
        return tables[0]
    names = list(dict.fromkeys(name for table in tables for name in table.names))
    wanted = dict.fromkeys(name for table in tables for name in table.cells)
    # Parts of a column are gone before the next one is joined: all at once would double the memory of a long log.
    cells = {name: _behind([(table.cells.pop(name, None), table.rows) for table in tables]) for name in wanted}
    return Table(names, sum(table.rows for table in tables), cells)


def _behind(parts: list[tuple[Cells | None, int]]) -> Cells:
    """Concatenate the parts of one column; rows of a part without the column are empty."""
    kinds = {part.dtype.kind if isinstance(part, np.ndarray) else "" for part, _ in parts if part is not None}
    if len(kinds) == 1 and kinds != {""}:
        none = MISSING if kinds == {"i"} else np.nan
        return np.concatenate([np.full(rows, none) if part is None else np.asarray(part) for part, rows in parts])
    return [value for part, rows in parts for value in ([None] * rows if part is None else listed(part))]


def of_table(columns: dict[str, Any], budget: files.Budget) -> dict[str, Cells]:
    """Cells of a table's Arrow columns, after a check that their texts fit in memory."""
    for column in columns.values():
        from pyarrow import compute, types

        size = 0
        for chunk in column.chunks:
            while hasattr(chunk, "flatten") and not types.is_dictionary(chunk.type) and types.is_nested(chunk.type):
                chunk = chunk.flatten()
            if types.is_dictionary(chunk.type) and not types.is_primitive(chunk.type.value_type):
                size += compute.sum(compute.take(compute.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
        budget.take(2 * size)
    # A column leaves as soon as it is converted: both at once would double the memory of a long log.
    return {name: of_arrow(columns.pop(name)) for name in list(columns)}


def is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def type_inside(schema: Any, name: str) -> Any:
    """Type at a dotted name inside a nested column; None if the column has no such name."""
    from pyarrow import types

    head, *rest = name.split(".")
    if name in schema.names or not rest or head not in schema.names:
        return None
    kind = schema.field(head).type
    for part in rest:
        if not types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return kind


def of_arrow(column: Any) -> Cells:
    import pyarrow as pa
    from pyarrow import compute, types

    kind = column.type
    if types.is_integer(kind):
        try:
            numbers = column.cast(pa.int64())
            return np.asarray((compute.fill_null(numbers, MISSING) if numbers.null_count else numbers).to_numpy())
        except pa.ArrowInvalid:
            return list(column.to_pylist())
    if types.is_floating(kind):
        # "Not a number" is a value that somebody wrote; only an empty cell is none.
        if compute.any(compute.is_nan(column)).as_py():
            return list(column.to_pylist())
        return np.asarray(compute.fill_null(column.cast(pa.float64()), math.nan).to_numpy())
    return list(column.to_pylist())
