"""Log files to columns: CSV, JSON lines and Parquet, read whole or refused by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim import checks
from asyncsim.schedules._log_stacks import COLUMNS, Stack

MISSING = np.iinfo(np.int64).min
"""Stands for what a column of integers does not say."""
KINDS = (".csv", ".jsonl", ".ndjson", ".parquet")


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, by which a run can name the log that it replayed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path) -> dict[str, list[Any]]:
    """The columns of a file as lists of plain values, None where nothing stands; at least one row."""
    kind = next((k for k in reversed([suffix.lower() for suffix in path.suffixes]) if k in KINDS), None)
    remedy = "write the log as .csv, .jsonl or .parquet (.csv.gz and .jsonl.gz too)"
    checks.require(kind is not None, "path", str(path), "a file ending in " + ", ".join(KINDS), remedy)
    checks.require(path.is_file(), "path", str(path), "an existing file", "give the log that the run wrote")
    reader = {".csv": _csv, ".parquet": _parquet}.get(str(kind), _jsonl)
    try:
        table = reader(path)
    except checks.InputError:
        raise
    except (OSError, EOFError, ValueError, KeyError) as error:  # errors of pyarrow are OSErrors and ValueErrors
        bound = f"a whole {str(kind)[1:]} file ({' '.join(str(error).split())[:120]})"
        raise checks.InputError("path", str(path), bound, "copy the log again: it is truncated or damaged") from None
    rows = len(next(iter(table.values()), ()))
    checks.require(rows > 0, "path", str(path), "a file with at least one row", "log one row for every sample")
    return table


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _csv(path: Path) -> dict[str, list[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    with _opened(path) as file:
        data = file.read()
    # A row cut off inside its last number looks whole: only the end of the line tells.
    checks.require(
        data.endswith((b"\n", b"\r")), "path", str(path), "ended by the end of a line",
        "copy the log again: it is truncated (or end its last line)",
    )
    convert = csv.ConvertOptions(strings_can_be_null=True, auto_dict_encode=False)
    parse = csv.ParseOptions(newlines_in_values=True)
    return _columns(csv.read_csv(pa.BufferReader(data), parse_options=parse, convert_options=convert))


def _parquet(path: Path) -> dict[str, list[Any]]:
    from pyarrow import parquet

    return _columns(parquet.ParquetFile(path).read())


def _columns(table: Any) -> dict[str, list[Any]]:
    names = table.column_names
    checks.require(len(set(names)) == len(names), "columns", names, "of different names", "rename the columns")
    return {name: table.column(name).to_pylist() for name in names}


def _jsonl(path: Path) -> dict[str, list[Any]]:
    rows: list[dict[str, Any]] = []
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            checks.require(
                isinstance(row, dict), f"path, line {number}", line.decode(errors="replace")[:80], "one JSON object",
                "copy the log again: it is truncated or damaged",
            )
            rows.append(row)
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}


def chosen(table: Mapping[str, list[Any]], stack: Stack, given: Mapping[str, str]) -> dict[str, str]:
    """For every column of ours that the file has the name it stands under: as given, the trainer's, or our own."""
    found = {}
    for ours in COLUMNS:
        if ours in given:
            lacking = [name for name in given[ours].split("+") if name not in table]
            checks.require(
                not lacking, f"columns[{ours}]", given[ours], "a column of the file: " + _named(table),
                "correct the name",
            )
            found[ours] = given[ours]
            continue
        for theirs in (*stack.columns.get(ours, ()), ours):
            if all(name in table for name in theirs.split("+")):
                found[ours] = theirs
                break
    return found


def _named(table: Mapping[str, list[Any]]) -> str:
    return ", ".join(list(table)[: checks.MANY]) + (", ..." if len(table) > checks.MANY else "")


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
        try:
            found[row] = np.nan if absent(value) else float(value)
        except (TypeError, ValueError):
            raise checks.InputError(
                f"{field}, row {row + 1}", value, "a number", "leave the cell empty where it is unknown"
            ) from None
    return found


def codes(values: list[Any]) -> np.ndarray:
    """Number of each distinct value in order of appearance, int64."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(str(value), len(known)) for value in values], dtype=np.int64)
