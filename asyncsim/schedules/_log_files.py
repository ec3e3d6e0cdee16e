"""Log files to tables: CSV, Parquet, JSON lines, tensors and pickles, read within a limit or refused by name.

Files of tensors (.pt) and pickles are read without running what they hold: tensors and plain values alone.

pyarrow (as of version 26) ends the process when it reads the columns of a damaged Parquet footer, which cannot be
caught. So the sizes that a footer declares are read here first. A footer is one structure of Thrift's compact protocol.
"""

import csv
import json
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files
from asyncsim.schedules import _log_cells, _log_places
from asyncsim.schedules._log_cells import CELL, NUMBER, ROW, Cells, Collected, Table, is_number, of_table
from asyncsim.schedules._log_places import PATH, Place, opened

PIECE = 1 << 20
"""Bytes that are unpacked at once."""
LARGE = 1 << 22
"""Bytes from which on a CSV file is read in batches of so many."""
BATCH = 1 << 18
"""Rows of a Parquet file that are read at once."""
BLOCK = 1 << 16
"""Rows of JSON that are held as they were parsed, before their numbers are packed."""
MAGIC = b"PAR1"
TEXT = 6
"""Physical type of byte arrays."""
EACH = 200
"""Bytes that a byte of the footer becomes at most: an empty structure is one of them, a dictionary here."""
NUMBERED = "row:"
"""The column that numbers the rows of a log, for one in which each row is one sample."""


class Layout(NamedTuple):
    """Arrangement of rows in a trainer's log files.

    `files`: the pattern of their names below a folder; `records`: the key of the list of samples in a file of tensors;
    `listed`: whether a record holds a list for every column, one entry a sample; `empty`: texts of empty cells in .csv.
    """

    files: str = ""
    records: str = "samples"
    listed: bool = False
    empty: Sequence[str] | None = None


PLAIN = Layout()
"""Rows as they come."""


def read(places: list[Place], wanted: Iterable[str], budget: files.Budget, layout: Layout = PLAIN) -> Table:
    """Read the requested columns of all files of a log, which must have a row."""
    wanted = set(wanted)
    tables: list[Table] = []
    for place in places:
        kind, size = str(_log_places.kind_of(place.path)), place.path.stat().st_size
        checks.require(size > 0, "path", place.name, "not empty", "wait until the run has written it")
        with files.decoding(place.path, f"{kind[1:]} file", "copy the log again: it is truncated or damaged"):
            if kind in (".pt", ".pth", ".pkl", ".pickle"):
                rows = _values(place.path, kind, wanted, budget, layout.records)
            elif kind in (".csv", ".tsv"):
                rows = _csv(place.path, wanted, budget, layout.empty)
            else:
                rows = (_parquet if kind == ".parquet" else _json_lines)(place.path, wanted, budget)
        rows = _log_cells.spread(rows, str(place.path)) if layout.listed else rows
        # What its path says stands in columns of its own.
        for name in sorted(wanted):
            if name.startswith(PATH) and (number := _log_places.number(name, place)) is not None:
                rows.names.append(name)
                rows.cells[name] = np.full(rows.rows, number)
        tables.append(rows)
    table = _log_cells.joined(tables)
    remedy = "it has no row below its header: log one for every step or sample"
    checks.require(table.rows > 0, "path", places[0].name, "a log with at least one row", remedy)
    table.names.append(NUMBERED)
    if NUMBERED in wanted:
        table.cells[NUMBERED] = np.arange(table.rows)
    return table


def _json_lines(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    """Requested columns of a JSON lines file."""
    collected, tables = Collected(wanted, budget), []
    for number, line in enumerate(_lines(path, budget), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        bound, remedy = "one JSON object", "copy the log again: it is truncated or damaged"
        remedy = checks.advice(".json", "file") if line.lstrip().startswith(b"[") else remedy
        checks.require(isinstance(row, dict), f"path, line {number}", line.decode(errors="replace")[:80], bound, remedy)
        collected.add(row)
        if collected.rows == BLOCK:
            tables.append(collected.packed())
            collected = Collected(wanted, budget)
    return _log_cells.joined([*tables, collected.packed() if tables else collected.table()])


def _lines(path: Path, budget: files.Budget) -> Iterator[bytes]:
    """Lines of a file, each small enough to be parsed within the remaining budget."""
    with opened(path) as file:
        while line := file.readline(max(1, budget.left // files.TEXT) + 1):
            budget.fit(files.TEXT * len(line))
            yield line


NAMED = {("collections", "OrderedDict"), ("builtins", "set"), ("numpy", "dtype"), ("numpy", "ndarray")}
NAMED |= {(f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")}
"""What a pickle may name: containers and arrays. Anything else is code, or needs the code of the trainer."""


class _Plain(pickle.Unpickler):
    """Unpickler for plain values; a name outside of `NAMED` is refused before it is imported."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMED:
            raise _Refused(f"{module}.{name}")
        return super().find_class(module, name)


class _Refused(Exception):
    """Raised for anything other than a plain value."""


def _values(path: Path, kind: str, wanted: set[str], budget: files.Budget, records: str) -> Table:
    """Rows of a file: the list under the key `records`, a list of records, or a record of columns."""
    tensors, size = kind in (".pt", ".pth"), path.stat().st_size
    if tensors and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    budget.fit(files.TEXT * size)
    value = _tensors(path) if tensors else _pickled(path)
    beside: dict[str, Any] = {}
    if isinstance(value, Mapping) and records in value:
        beside = {f"file:{key}": _number(each) for key, each in value.items() if key != records}
        value = value[records]
    if isinstance(value, Mapping):
        value = _transposed(value, path)
    bound = f"a list of records{f' under {records}' if records else ''}, or a record of columns"
    usable = isinstance(value, (list, tuple)) and all(isinstance(row, Mapping) for row in value)
    checks.require(usable, "path", str(path), bound, "save one record for each sample")
    collected = Collected(wanted, budget)
    for row in value:
        # Texts and log-probs of tokens stay where they are.
        named = {str(key): each for key, each in row.items()}
        needed = {k: _number(each) for k, each in named.items() if any(f"{w}.".startswith(f"{k}.") for w in wanted)}
        collected.add(needed | beside)
    return collected.table()


def _tensors(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        code = "Unsupported" in str(error) or "weights_only" in str(error).lower()
        raise _refusal(path, "objects of the trainer" if code else "damaged") from None


def _pickled(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            return _Plain(file).load()
    except _Refused as error:
        raise _refusal(path, str(error)) from None


def _refusal(path: Path, what: str) -> checks.InputError:
    remedy = "save dictionaries, lists, numbers, texts and tensors only (`asyncsim list logs` has writers of 15 lines)"
    return checks.InputError("path", f"{path}: {what}", "a whole file of tensors and plain values", remedy)


def _number(value: Any) -> Any:
    """Convert tensors and arrays to lists, or to numbers if they hold one."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _transposed(columns: Mapping[Any, Any], path: Path) -> list[dict[str, Any]]:
    """Convert a record of columns of equal length to records."""
    lists = {str(key): _number(value) for key, value in columns.items()}
    rows = {name: len(value) for name, value in lists.items() if isinstance(value, list)}
    one = len(set(rows.values())) == 1
    checks.require(one, "path", str(path), "columns of one length", "save one record for each sample")
    size = next(iter(rows.values()))
    return [{n: v[row] if isinstance(v, list) else v for n, v in lists.items()} for row in range(size)]


def _csv(path: Path, wanted: set[str], budget: files.Budget, empty: Sequence[str] | None) -> Table:
    import pyarrow as pa
    from pyarrow import csv as arrow

    data = bytearray()
    with opened(path) as file:
        while piece := file.read(PIECE):
            # Once here, once while it is parsed, once as columns.
            budget.take(3 * len(piece))
            data += piece
    # A row cut off inside its last number looks whole; only its missing line end shows the cut.
    remedy = "copy the log again: it is truncated (or end its last line)"
    checks.require(data.endswith((b"\n", b"\r")), "path", str(path), "ended by the end of a line", remedy)
    lines, first = max(data.count(b"\n"), data.count(b"\r")), re.search(rb"[\r\n]", data)
    comma = files.delimiter(bytes(data[:PIECE]))
    across = data.count(comma.encode(), 0, first.start() if first else 0) + 1
    budget.take(9 * min(lines * min(across, len(wanted)), len(data)))
    source, parse = pa.py_buffer(data), arrow.ParseOptions(newlines_in_values=True, delimiter=comma)
    # Names in the first record; a reader of all columns would take 10 kB for each.
    ends = (match.end() for match in re.finditer(rb"\r\n|\r|\n", data))
    texts = (data[start:end].decode("utf-8-sig") for start, end in pairwise(chain((0,), ends)))
    names = _different(next((names for names in csv.reader(texts, strict=True, delimiter=comma) if names), []))
    chosen = [name for name in names if name in wanted]
    asked = chosen or names[:1]
    convert = arrow.ConvertOptions(null_values=empty, strings_can_be_null=True, include_columns=asked)
    if chosen and len(data) >= LARGE and (cells := _by_batches(source, parse, convert)) is not None:
        rows = len(cells[chosen[0]])
        del source, data
        pa.default_memory_pool().release_unused()
        budget.take(rows * (ROW + NUMBER * len(cells)))
        return Table(names, rows, cells)
    table = arrow.read_csv(source, arrow.ReadOptions(use_threads=False), parse, convert)
    columns, rows = {name: table.column(name) for name in chosen}, table.num_rows
    del table, source, data
    pa.default_memory_pool().release_unused()
    kinds = [column.type for column in columns.values()]
    budget.take(rows * (ROW + sum(NUMBER if is_number(kind) else CELL for kind in kinds)))
    return Table(names, rows, of_table(columns, budget))


def _by_batches(source: Any, parse: Any, convert: Any) -> dict[str, Cells] | None:
    """Columns of numbers, read in batches of lines; None if a column has other cells.

    A table of ten million rows beside its text and what parsing leaves behind would take a gigabyte more.
    """
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=False, block_size=LARGE)
    try:
        with csv.open_csv(source, read_options=options, parse_options=parse, convert_options=convert) as reader:
            numbers = all(is_number(kind) for kind in reader.schema.types)
            return _numbers(reader, reader.schema.names) if numbers else None
    except pa.ArrowInvalid:
        return None  # the first lines do not tell the kind of the others


def _numbers(batches: Iterable[Any], names: list[str]) -> dict[str, Cells] | None:
    """Columns of numbers, one batch at a time; None if a cell is not a number."""
    import pyarrow as pa

    parts: dict[str, list[Any]] = {name: [] for name in names}
    for batch in batches:
        for name, cells in parts.items():
            cells.append(_log_cells.of_arrow(pa.chunked_array([batch.column(name)])))
    if any(isinstance(cells, list) for column in parts.values() for cells in column):
        return None
    return {name: np.concatenate(parts.pop(name)) for name in list(parts)}


def _parquet(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    import pyarrow as pa
    from pyarrow import compute, parquet

    rows, chunks = footer(path, budget)
    budget.take(ROW * rows)
    limit = max(os.path.getsize(path), PIECE)
    sizes = {"thrift_string_size_limit": limit, "thrift_container_size_limit": limit}
    with parquet.ParquetFile(path, **sizes) as file:
        schema = file.schema_arrow
    nested = {name: kind for name in sorted(wanted) if (kind := _log_cells.type_inside(schema, name)) is not None}
    names = [name for name in schema.names if name in wanted]
    for name in names:
        _refuse_type(name, schema.field(name).type)
    for name, kind in nested.items():
        _refuse_type(name, kind)
    chosen = [*names, *nested]
    leaves = [leaf for leaf in chunks if any(f"{leaf.path}.".startswith(f"{name}.") for name in chosen)]
    kinds = {name: schema.field(name).type for name in names} | nested
    numbers = {name for name, kind in kinds.items() if is_number(kind)}
    budget.take(sum((NUMBER if leaf.path in numbers else CELL) * leaf.values + 2 * leaf.size for leaf in leaves))
    if names and not nested and len(numbers) == len(names) and rows * NUMBER >= LARGE:
        with parquet.ParquetFile(path, **sizes) as file:
            found = _numbers(file.iter_batches(BATCH, columns=names, use_threads=False), names)
        pa.default_memory_pool().release_unused()
        if found is not None:
            return Table(_different([*schema.names]), rows, found)
    # A text repeated a million times is one entry of a dictionary; its cells are counted before they are made.
    texts = sorted({leaf.path for leaf in leaves if leaf.text})
    with parquet.ParquetFile(path, read_dictionary=texts, **sizes) as file:
        table = file.read(chosen, use_threads=False) if chosen else pa.table({})
    columns = {name: table.column(name) for name in names}
    for name in nested:
        head, *rest = name.split(".")
        columns[name] = compute.struct_field(table.column(head), rest)
    del table
    every = _different([*schema.names, *nested])
    cells = of_table(columns, budget)
    pa.default_memory_pool().release_unused()
    return Table(every, rows, cells)


def _different(names: list[str]) -> list[str]:
    checks.require(len(set(names)) == len(names), "columns", names, "of different names", "rename the columns")
    return names


def _refuse_type(name: str, kind: Any) -> None:
    from pyarrow import types

    inner = kind
    for _ in range(_log_cells.DEEPEST):
        if types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
            inner = inner.value_type
    if types.is_dictionary(inner):
        inner = inner.value_type
    plain = ("integer", "floating", "boolean", "string", "large_string", "null", "decimal", "binary", "large_binary")
    fits = any(getattr(types, f"is_{name}")(inner) for name in plain)
    bound, remedy = "of numbers, texts or lists of them", "write the column with plain values"
    checks.require(fits, f"column {name}", str(kind), bound, remedy)


class Leaf(NamedTuple):
    """One chunk of a nested Parquet column: schema path, number of values, unpacked bytes, and whether it is text."""

    path: str
    values: int
    size: int
    text: bool


def footer(path: Path, budget: files.Budget) -> tuple[int, list[Leaf]]:
    """Number of rows in a Parquet file and the chunks of its columns, from its footer."""
    with open(path, "rb") as file:
        whole = file.seek(0, os.SEEK_END)
        file.seek(max(0, whole - 8))
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != MAGIC or length > whole - 12:
            raise ValueError("it does not end as a Parquet file does")
        budget.fit(EACH * length)
        file.seek(whole - 8 - length)
        fields = _Reader(file.read(length)).structure()
    leaves = []
    for group in fields.get(4, []):
        for column in group[1]:
            chunk = column[3]
            leaves.append(Leaf(".".join(chunk[3]), chunk[5], chunk[6], chunk[1] == TEXT))
    least = min([fields[3], *(number for leaf in leaves for number in (leaf.values, leaf.size))])
    if least < 0:
        raise ValueError("it declares less than nothing")
    return fields[3], leaves


class _Reader:
    """Reader of Thrift's compact protocol: fields by their number, lists as lists, texts as texts."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def structure(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while kind := self.byte():
            number = number + (kind >> 4) if kind >> 4 else self.integer()
            fields[number] = kind & 15 == 1 if kind & 15 < 3 else self.value(kind & 15)
        return fields

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.integer()
            case 7:
                return self.bytes(8)
            case 8:
                return self.bytes(self.varint()).decode(errors="replace")
            case 9 | 10:
                head = self.byte()
                count = self.varint() if head >> 4 == 15 else head >> 4
                self.require(count)
                return [self.value(head & 15) for _ in range(count)]
            case 12:
                return self.structure()
        raise ValueError(f"unknown type {kind} in its footer")

    def integer(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def varint(self) -> int:
        digits = [self.byte()]
        while digits[-1] > 127:
            digits.append(self.byte())
        if len(digits) > 9:
            raise ValueError("a number in its footer is too long")
        return sum((digit & 127) << 7 * place for place, digit in enumerate(digits))

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def bytes(self, count: int) -> bytes:
        self.require(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def require(self, count: int) -> None:
        """Refuse more entries than bytes, since every entry has at least one byte."""
        if count > len(self.data) - self.at:
            raise ValueError("its footer is cut short")
