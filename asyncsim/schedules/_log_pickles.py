"""Files of tensors (.pt) and of pickled values, read without running what they hold: tensors and plain values alone."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.base import checks, files
from asyncsim.schedules._log_rows import Collected, Table

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


def read(path: Path, kind: str, wanted: set[str], budget: files.Budget, records: str) -> Table:
    """The rows of a file: the list under the key `records`, a list of records, or a record of columns.

    Values beside the list are columns `file:KEY`. Raises `InputError` for anything but tensors and plain values.
    """
    _reserve(path, kind, budget)
    value = _tensors(path) if kind in (".pt", ".pth") else _pickled(path)
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
        collected.add({str(key): _number(each) for key, each in row.items() if _needed(str(key), wanted)} | beside)
    return collected.table()


def _reserve(path: Path, kind: str, budget: files.Budget) -> None:
    """Refuse a file that unpacks into more than what is left."""
    size = path.stat().st_size
    if kind in (".pt", ".pth") and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    budget.fit(files.TEXT * size)


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


def _needed(key: str, wanted: set[str]) -> bool:
    """Whether a column or something inside it is wanted: texts and log-probs of tokens stay where they are."""
    return any(name == key or name.startswith(f"{key}.") for name in wanted)


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
