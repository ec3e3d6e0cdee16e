"""Log files to tables: CSV, JSON lines and Parquet, read whole within a limit or refused by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim.base import checks, files
from asyncsim.schedules._log_footer import footer

KINDS = (".csv", ".jsonl", ".ndjson", ".parquet")
ROW, CELL = 600, 80
"""Bytes that a row, and each of its cells, take at most until the log is laid out: measured, beside their texts."""
DEEPEST = 3
"""Lists inside lists that a cell may have: versions are pairs in a list."""
PIECE = 1 << 20
"""Bytes that are unpacked at once."""


class Table(NamedTuple):
    """A log: the names of its columns, how many rows it has, and the cells of the columns that were wanted."""

    names: list[str]
    rows: int
    cells: dict[str, list[Any]]


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, by which a run can name the log that it replayed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path, wanted: Iterable[str], budget: files.Budget) -> Table:
    """The wanted columns of a file as lists of plain values, None where a cell is empty; at least one row.

    Raises `InputError` for a file that is damaged, or would take more memory than its budget.
    """
    kind = next((k for k in reversed([suffix.lower() for suffix in path.suffixes]) if k in KINDS), None)
    remedy = "write the log as .csv, .jsonl or .parquet (.csv.gz and .jsonl.gz too)"
    checks.require(kind is not None, "path", str(path), "a file ending in " + ", ".join(KINDS), remedy)
    checks.require(path.is_file(), "path", str(path), "an existing file", "give the log that the run wrote")
    reader = {".csv": _csv, ".parquet": _parquet}.get(str(kind), _jsonl)
    with files.decoding(path, f"{str(kind)[1:]} file", "copy the log again: it is truncated or damaged"):
        table = reader(path, set(wanted), budget)
    checks.require(table.rows > 0, "path", str(path), "a file with at least one row", "log one row for every sample")
    return table


def _open(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _csv(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    import pyarrow as pa
    from pyarrow import csv

    # Read the file within its budget.
    data = bytearray()
    with _open(path) as file:
        while piece := file.read(PIECE):
            # Once here, twice while it is parsed, once as columns, once as texts of cells.
            budget.take(5 * len(piece))
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
    budget.take(9 * min(lines * across, len(data)) + lines * (ROW + CELL * min(across, len(wanted))))
    # Parse the columns.
    convert = csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=False)
    parse = csv.ParseOptions(newlines_in_values=True)
    table = csv.read_csv(pa.py_buffer(data), parse_options=parse, convert_options=convert)
    return _columns(table, wanted)


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
    names = [name for name in schema.names if name in wanted]
    for name in names:
        _refuse_type(name, schema.field(name).type)
    # Reserve memory for the wanted columns.
    leaves = [leaf for leaf in declared.leaves if _top(leaf.path, schema.names) in names]
    budget.take(sum(CELL * leaf.values + 2 * leaf.size for leaf in leaves))
    # A text repeated a million times is one entry of a dictionary; its cells are counted before they are made.
    texts = sorted({leaf.path for leaf in leaves if leaf.text})
    with parquet.ParquetFile(path, read_dictionary=texts, **sizes) as file:
        table = file.read(columns=names) if names else pa.table({})
    for name in names:
        budget.take(2 * _text(table.column(name)))
    # Convert them to lists.
    return Table(schema.names, declared.rows, _columns(table, wanted).cells)


def _top(leaf: str, names: list[str]) -> str:
    """The column that a leaf of a nested file belongs to: its name may have dots itself."""
    return next((name for name in names if leaf == name or leaf.startswith(f"{name}.")), "")


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


def _columns(table: Any, wanted: set[str]) -> Table:
    names = table.column_names
    checks.require(len(set(names)) == len(names), "columns", names, "of different names", "rename the columns")
    cells = {name: table.column(name).to_pylist() for name in names if name in wanted}
    return Table(names, table.num_rows, cells)


def _jsonl(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    names: dict[str, None] = {}
    cells: dict[str, list[Any]] = {}
    rows = 0
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
        # Add columns that are new.
        if row.keys() - names.keys():
            names.update(dict.fromkeys(row))
            cells |= {name: [None] * rows for name in wanted & row.keys() - cells.keys()}
        # Append the row within the budget.
        budget.take(ROW + CELL * len(cells))
        for name, column in cells.items():
            value = row.get(name)
            column.append(value)
            if isinstance(value, (str, list, dict)):
                budget.take(_weight(value))
        rows += 1
    return Table(list(names), rows, cells)


def _lines(path: Path, budget: files.Budget) -> Iterator[bytes]:
    """Lines of a file, none of which becomes more than what is left when it is parsed."""
    with _open(path) as file:
        while line := file.readline(max(1, budget.left // files.TEXT) + 1):
            budget.fit(files.TEXT * len(line))
            yield line


def _weight(value: Any, depth: int = 0) -> int:
    """Bytes of a cell."""
    if not isinstance(value, (list, dict)):
        return 8 + sys.getsizeof(value)
    if depth == DEEPEST:
        raise ValueError(f"a cell with more than {DEEPEST} lists inside one another")
    inner = value if isinstance(value, list) else value.values()
    return sys.getsizeof(value) + sum(_weight(each, depth + 1) for each in inner)
