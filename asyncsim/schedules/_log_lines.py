"""Files of rows to tables: JSON lines, tensors and pickles.

A large file of plain JSON lines is read in blocks, any other line by line within the limit of a line. Files of tensors
(.pt) and pickles are read without running what they hold: tensors and plain values alone.
"""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks, files
from asyncsim.schedules import _log_cells
from asyncsim.schedules._log_cells import CELL, EXACT, MISSING, NUMBER, ROW, Cells, Collected, Table
from asyncsim.schedules._log_places import opened

SAMPLE, RARE, SPARSE = 50, 50, 4
"""Lines whose names a block is expected to have, others that it may have, and how many rows may lack one."""
LARGE, BLOCK = 1 << 22, 1 << 25
"""Bytes from which on a file of JSON lines is worth another reader, and what that reads at once."""


def read(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    """The wanted columns of a file: in blocks where its rows are plain, else line by line."""
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
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        bound, remedy = "one JSON object", "copy the log again: it is truncated or damaged"
        checks.require(isinstance(row, dict), f"path, line {number}", line.decode(errors="replace")[:80], bound, remedy)
        collected.add(row)
    return collected.table()


def _at_once(path: Path, wanted: set[str], budget: files.Budget) -> Table | None:
    """The columns of a large file of plain rows, all of one kind; None where reading by line has to look closer."""
    size = os.path.getsize(path)
    if size < LARGE or path.suffix.lower() in (".gz", ".zst"):
        return None
    import pyarrow as pa

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
    tables += [last] if last is not None else []
    table = _log_cells.joined(tables)
    pa.default_memory_pool().release_unused()
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
        options = rows_of.ReadOptions(use_threads=False, block_size=max(len(data), 1))
        table = rows_of.read_json(pa.py_buffer(data), read_options=options)
    except pa.ArrowException:
        return None
    nested = {name: kind for name in sorted(wanted) if (kind := _log_cells.type_inside(table.schema, name)) is not None}
    chosen = [name for name in table.column_names if name in wanted]
    kinds = [*(table.schema.field(name).type for name in chosen), *nested.values()]
    gone = {name for name, kind in zip([*chosen, *nested], kinds, strict=True) if types.is_null(kind)}
    # Names inside lists are read by line.
    heads = {name.partition(".")[0] for name in wanted if name not in table.column_names and name not in nested}
    if heads & {name for name in table.column_names if types.is_nested(table.schema.field(name).type)}:
        return None
    # Texts that look like dates were changed, two rows in one line were told apart, and lists have rules of their own.
    plain = all(_log_cells.is_number(kind) or types.is_string(kind) or types.is_null(kind) for kind in kinds)
    if not plain or table.num_rows != data.count(b"\n") + (not data.endswith(b"\n")):
        return None
    budget.take(table.num_rows * (ROW + sum(NUMBER if _log_cells.is_number(kind) else CELL for kind in kinds)))
    columns = {name: table.column(name) for name in chosen} | {
        name: _log_cells.field_inside(table, name) for name in nested
    }
    # A column that is empty in this block is whatever it is in the others.
    cells = _log_cells.of_table({name: column for name, column in columns.items() if name not in gone}, budget)
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
    with opened(path) as file:
        while line := file.readline(max(1, budget.left // files.TEXT) + 1):
            budget.fit(files.TEXT * len(line))
            yield line


PLAIN = {
    ("collections", "OrderedDict"),
    ("builtins", "set"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
}
"""What a pickle may name: containers and arrays. Anything else is code, or needs the code of the trainer."""


class _Plain(pickle.Unpickler):
    """Reads plain values; a name outside `PLAIN` is refused before it is imported."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN:
            raise _Refused(f"{module}.{name}")
        return super().find_class(module, name)


class _Refused(Exception):
    """Something else than a plain value."""


def read_values(path: Path, kind: str, wanted: set[str], budget: files.Budget, records: str) -> Table:
    """The rows of a file: the list under the key `records`, a list of records, or a record of columns.

    Values beside the list are columns `file:KEY`. Raises `InputError` for anything but tensors and plain values.
    """
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
    except (pickle.UnpicklingError, EOFError, AttributeError, ValueError, IndexError, TypeError, KeyError) as error:
        raise _refusal(path, f"damaged ({type(error).__name__})") from None


def _refusal(path: Path, what: str) -> checks.InputError:
    remedy = "save dictionaries, lists, numbers, texts and tensors only (`asyncsim list logs` has writers of 15 lines)"
    return checks.InputError("path", f"{path}: {what}", "a whole file of tensors and plain values", remedy)


def _number(value: Any) -> Any:
    """Tensors and arrays as lists, or as numbers where they hold one."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _transposed(columns: Mapping[Any, Any], path: Path) -> list[dict[str, Any]]:
    """Records from a record of columns of one length."""
    lists = {str(key): _number(value) for key, value in columns.items()}
    rows = {name: len(value) for name, value in lists.items() if isinstance(value, list)}
    one = len(set(rows.values())) == 1
    checks.require(one, "path", str(path), "columns of one length", "save one record for each sample")
    size = next(iter(rows.values()))
    return [{n: v[row] if isinstance(v, list) else v for n, v in lists.items()} for row in range(size)]
