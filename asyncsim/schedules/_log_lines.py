"""Files of rows to tables: JSON lines, tensors and pickles.

Lines are read one by one, within the limit of a line. Files of tensors (.pt) and pickles are read without running what
they hold: tensors and plain values alone.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from asyncsim.base import checks, files
from asyncsim.schedules import _log_cells
from asyncsim.schedules._log_cells import Collected, Table
from asyncsim.schedules._log_places import opened

BLOCK = 1 << 16
"""Rows that are held as they were parsed, before their numbers are packed."""


def read(path: Path, wanted: set[str], budget: files.Budget) -> Table:
    """The wanted columns of a file of JSON lines."""
    collected, tables = Collected(wanted, budget), []
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
        if collected.rows == BLOCK:
            tables.append(collected.packed())
            collected = Collected(wanted, budget)
    return _log_cells.joined([*tables, collected.packed() if tables else collected.table()])


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
