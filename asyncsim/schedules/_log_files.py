"""Log files to tables: CSV, JSON lines, Parquet and files of tensors, read whole within a limit or refused by name."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.schedules import _log_pickles, _log_places, _log_rows
from asyncsim.schedules._log_cells import EXACT, MISSING, Cells, of_arrow
from asyncsim.schedules._log_footer import footer
from asyncsim.schedules._log_places import PATH, Place
from asyncsim.schedules._log_rows import CELL, DEEPEST, NUMBER, ROW, Collected, Table

PIECE = 1 << 20
"""Bytes that are unpacked at once."""
SAMPLE, RARE, SPARSE = 50, 50, 4
"""Lines whose names a block is expected to have, others that it may have, and how many rows may lack one."""
LARGE, BLOCK = 1 << 22, 1 << 25
"""Bytes from which on a file of JSON lines is worth another reader, and what that reads at once."""
NUMBERED = "row:"
"""The column that numbers the rows of a log, for one in which each row is one sample."""


class Layout(NamedTuple):
    """How a trainer lays rows on disk.

    `files`: the pattern of their names below a folder; `records`: the key of the list of samples in a file of tensors;
    `listed`: whether a record holds a list for every column, one entry a sample.
    """

    files: str = ""
    records: str = "samples"
    listed: bool = False


PLAIN = Layout()
"""Rows as they come."""


def read(places: list[Place], wanted: Iterable[str], budget: files.Budget, layout: Layout = PLAIN) -> Table:
    """The wanted columns of all files, at least one row.

    Raises `InputError` for a file that is damaged, or would take more memory than its budget.
    """
    wanted = set(wanted)
    tables = [_one(place, wanted, budget, layout) for place in places]
    table = _log_rows.joined(tables)
    checks.require(
        table.rows > 0, "path", places[0].name, "a log with at least one row", "log one row for every sample"
    )
    table.names.append(NUMBERED)
    if NUMBERED in wanted:
        table.cells[NUMBERED] = np.arange(table.rows)
    return table


def _one(place: Place, wanted: set[str], budget: files.Budget, layout: Layout) -> Table:
    """The rows of one file, with what its path says in columns of their own."""
    kind = str(_log_places.kind_of(place.path))
    with files.decoding(place.path, f"{kind[1:]} file", "copy the log again: it is truncated or damaged"):
        if kind in (".pt", ".pth", ".pkl", ".pickle"):
            table = _log_pickles.read(place.path, kind, wanted, budget, layout.records)
        else:
            table = {".csv": _csv, ".parquet": _parquet}.get(kind, _jsonl)(place.path, wanted, budget)
    if layout.listed:
        table = _log_rows.spread(table, str(place.path))
    for name in sorted(wanted):
        if name.startswith(PATH) and (number := _log_places.number(name, place)) is not None:
            table.names.append(name)
            table.cells[name] = np.full(table.rows, number)
    return table


def _open(path: Path) -> Any:
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")


def _csv(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    # Read the file within its budget.
    data = bytearray()
    with _open(path) as file:
        while piece := file.read(PIECE):
            # Once here, once while it is parsed, once as columns.
            budget.take(3 * len(piece))
            data += piece
    # A row cut off inside its last number looks whole; only its missing line end shows the cut.
    checks.require(
        data.endswith((b"\n", b"\r")),
        "path",
        str(path),
        "ended by the end of a line",
        "copy the log again: it is truncated (or end its last line)",
    )
    # Estimate and reserve the parsed size.
    lines, first = max(data.count(b"\n"), data.count(b"\r")), re.search(rb"[\r\n]", data)
    across = data.count(b",", 0, first.start() if first else 0) + 1
    budget.take(9 * min(lines * min(across, len(wanted)), len(data)))
    # Parse the columns that are wanted.
    source, parse = pa.py_buffer(data), csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(source, parse_options=parse) as begun:
        names = begun.schema.names
    checks.require(len(set(names)) == len(names), "columns", names, "of different names", "rename the columns")
    chosen = [name for name in names if name in wanted]
    convert = csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=False, include_columns=chosen or names[:1])
    table = csv.read_csv(source, parse_options=parse, convert_options=convert)
    columns, rows = {name: table.column(name) for name in chosen}, table.num_rows
    del table, source, data
    kinds = [column.type for column in columns.values()]
    budget.take(rows * (ROW + sum(NUMBER if _is_number(kind) else CELL for kind in kinds)))
    return Table(names, rows, _cells(columns, budget))


def _cells(columns: dict[str, Any], budget: files.Budget) -> dict[str, Cells]:
    """Columns of a library's table, once there is room for their texts."""
    for column in columns.values():
        budget.take(2 * _text(column))
    # A column leaves as soon as it is converted: both at once would double the memory of a long log.
    return {name: of_arrow(columns.pop(name)) for name in list(columns)}


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _parquet(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    # Read the schema within limits.
    declared = footer(path, budget)
    budget.take(ROW * declared.rows)
    limit = max(os.path.getsize(path), PIECE)
    sizes = {"thrift_string_size_limit": limit, "thrift_container_size_limit": limit}
    with parquet.ParquetFile(path, **sizes) as file:
        schema = file.schema_arrow
    nested = {name: kind for name in sorted(wanted) if (kind := _inside(schema, name)) is not None}
    names = [name for name in schema.names if name in wanted]
    for name in names:
        _refuse_type(name, schema.field(name).type)
    for name, kind in nested.items():
        _refuse_type(name, kind)
    # Reserve memory for the wanted columns.
    chosen = [*names, *nested]
    leaves = [leaf for leaf in declared.leaves if any(_below(leaf.path, name) for name in chosen)]
    kinds = {name: schema.field(name).type for name in names} | nested
    numbers = {name for name, kind in kinds.items() if _is_number(kind)}
    budget.take(sum((NUMBER if leaf.path in numbers else CELL) * leaf.values + 2 * leaf.size for leaf in leaves))
    # A text repeated a million times is one entry of a dictionary; its cells are counted before they are made.
    texts = sorted({leaf.path for leaf in leaves if leaf.text})
    with parquet.ParquetFile(path, read_dictionary=texts, **sizes) as file:
        table = file.read(columns=chosen) if chosen else pa.table({})
    columns = {name: table.column(name) for name in names} | {name: _field(table, name) for name in nested}
    del table
    every = [*schema.names, *nested]
    checks.require(len(set(every)) == len(every), "columns", every, "of different names", "rename the columns")
    return Table(every, declared.rows, _cells(columns, budget))


def _below(leaf: str, name: str) -> bool:
    """Whether a leaf of a nested file belongs to a column."""
    return leaf == name or leaf.startswith(f"{name}.")


def _inside(schema: Any, name: str) -> Any:
    """The type at a name with dots inside a nested column, None where there is none."""
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


def _field(table: Any, name: str) -> Any:
    """The column at a name with dots."""
    from pyarrow import compute

    head, *rest = name.split(".")
    return compute.struct_field(table.column(head), rest)


def _refuse_type(name: str, kind: Any) -> None:
    from pyarrow import types

    inner = kind
    for _ in range(DEEPEST):
        if types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
            inner = inner.value_type
    if types.is_dictionary(inner):
        inner = inner.value_type
    tests = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_string,
        types.is_large_string,
        types.is_null,
        types.is_decimal,
        types.is_binary,
        types.is_large_binary,
    )
    checks.require(
        any(test(inner) for test in tests),
        f"column {name}",
        str(kind),
        "of numbers, texts or lists of them",
        "write the column with plain values",
    )


def _text(column: Any) -> int:
    """Bytes of the texts of a column once each cell has its own."""
    from pyarrow import compute, types

    size = 0
    for chunk in column.chunks:
        while hasattr(chunk, "flatten") and not types.is_dictionary(chunk.type) and types.is_nested(chunk.type):
            chunk = chunk.flatten()
        if types.is_dictionary(chunk.type) and not types.is_primitive(chunk.type.value_type):
            lengths = compute.binary_length(chunk.dictionary)
            size += compute.sum(compute.take(lengths, chunk.indices)).as_py() or 0
    return size


def _jsonl(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    left = budget.left
    at_once = _at_once(path, wanted, budget)
    if at_once is not None:
        return at_once
    # What blocks took before they gave up is free again.
    budget.left = left
    collected = Collected(wanted, budget)
    for number, line in enumerate(_lines(path, budget), 1):
        if not line.strip():
            continue
        # Parse one row.
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        checks.require(
            isinstance(row, dict),
            f"path, line {number}",
            line.decode(errors="replace")[:80],
            "one JSON object",
            "copy the log again: it is truncated or damaged",
        )
        collected.add(row)
    return collected.table()


def _at_once(path: Path, wanted: set[str], budget: files.Budget) -> Table | None:
    """The columns of a large file of plain rows, all of one kind; None where reading by line has to look closer."""
    size = os.path.getsize(path)
    if size < LARGE or path.suffix.lower() in (".gz", ".zst"):
        return None
    tables, rest, kinds = [], b"", dict[str, str]()
    with open(path, "rb") as file:
        while piece := file.read(BLOCK):
            whole, end, rest = (rest + piece).rpartition(b"\n")
            if not end and len(piece) == BLOCK:
                return None  # lines as long as a block are read within the limit of a line
            if not end:
                continue
            block = _block(whole + end, wanted, budget)
            if block is None or any(kinds.setdefault(n, _kind(c)) != _kind(c) for n, c in block.cells.items()):
                return None
            tables.append(block)
    last = _block(rest, wanted, budget) if rest.strip() else None
    if rest.strip() and last is None:
        return None
    table = _log_rows.joined([*tables, *([last] if last is not None else [])])
    # Columns that are empty everywhere.
    for name in wanted & set(table.names) - table.cells.keys():
        table.cells[name] = np.full(table.rows, MISSING)
    return table


def _kind(cells: Cells) -> str:
    return cells.dtype.kind if isinstance(cells, np.ndarray) else type(cells).__name__


def _block(data: bytes, wanted: set[str], budget: files.Budget) -> Table | None:
    """The columns of whole lines, None where they are not rows of numbers and texts alone."""
    import pyarrow as pa
    from pyarrow import json as rows_of
    from pyarrow import types

    if not _dense(data):
        return None
    try:
        options = rows_of.ReadOptions(block_size=max(len(data), 1))
        table = rows_of.read_json(pa.py_buffer(data), read_options=options)
    except pa.ArrowException:
        return None
    nested = {name: kind for name in sorted(wanted) if (kind := _inside(table.schema, name)) is not None}
    chosen = [name for name in table.column_names if name in wanted]
    kinds = [*(table.schema.field(name).type for name in chosen), *nested.values()]
    gone = {name for name, kind in zip([*chosen, *nested], kinds, strict=True) if types.is_null(kind)}
    # Names inside lists are read by line.
    heads = {name.partition(".")[0] for name in wanted if name not in table.column_names and name not in nested}
    if heads & {name for name in table.column_names if types.is_nested(table.schema.field(name).type)}:
        return None
    # Texts that look like dates were changed, two rows in one line were told apart, and lists have rules of their own.
    plain = all(_is_number(kind) or types.is_string(kind) or types.is_null(kind) for kind in kinds)
    if not plain or table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
        return None
    budget.take(table.num_rows * (ROW + sum(NUMBER if _is_number(kind) else CELL for kind in kinds)))
    columns = {name: table.column(name) for name in chosen} | {name: _field(table, name) for name in nested}
    # A column that is empty in this block is whatever it is in the others.
    cells = _cells({name: column for name, column in columns.items() if name not in gone}, budget)
    # A number of more than 53 bits became a float: its last digits are gone.
    rounded = any(
        isinstance(c, np.ndarray) and c.dtype.kind == "f" and (np.abs(c) >= EXACT).any() for c in cells.values()
    )
    return None if rounded else Table([*table.column_names, *nested], table.num_rows, cells)


def _dense(data: bytes) -> bool:
    """Whether rows have much the same names: a column for each of many rare ones would take rows times names."""
    names: set[str] = set()
    try:
        for line in data.split(b"\n", SAMPLE)[:SAMPLE]:
            names |= _names(json.loads(line)) if line else set()
    except (ValueError, RecursionError):
        return False
    written = data.count(b'":') - data.count(b'\\":')
    rare = written - sum(data.count(f"{json.dumps(name)}:".encode()) for name in names)
    return rare <= RARE and len(names) * data.count(b"\n") <= SPARSE * written


def _names(value: Any) -> set[str]:
    """All names of a record, those inside it too."""
    if isinstance(value, dict):
        return set(value).union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if isinstance(value, list) else set()


def _lines(path: Path, budget: files.Budget) -> Iterator[bytes]:
    """Lines of a file, none of which becomes more than what is left when it is parsed."""
    with _open(path) as file:
        while line := file.readline(max(1, budget.left // files.TEXT) + 1):
            budget.fit(files.TEXT * len(line))
            yield line
