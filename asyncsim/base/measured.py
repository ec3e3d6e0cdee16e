"""Measured numbers: one column of a CSV, JSON lines or Parquet file, given as `file.csv:column*factor`."""

import math
import os
import re
from pathlib import Path

import numpy as np

from asyncsim.base import checks, files

TEXT = 16
"""Bytes of memory per byte of a table, at most."""
SUMMARY = re.compile(r"(?i)(^|[^a-z])(mean|avg|average|median|min|max|minimum|maximum|std|p\d\d?)([^a-z]|$)")
"""Names of columns with a statistic of many numbers a row."""
UNREAD = re.compile(r"\.(np[yz]|pth?|pkl|pickle|xlsx?|ods|json|h5|feather|arrow|safetensors|gz|zst|bz2)(?=:|$)")
"""Files that have numbers too, and are not read here."""
LIKELY = (("second|delay|time|_ms|_s$", "train"), ("response|completion|output|gen", "len|token|delay|second|_ms|_s$"))
OTHER = re.compile(r"(?i)prompt|input|step|index|epoch|version|reward|(^|_)id$|seed")
"""Parts of names that columns of seconds have, that columns of lengths have, and that neither has."""
LINES = (".jsonl", ".ndjson")
"""Suffixes of files with one JSON object per line."""


def refuse_rows(field: str, column: str, numbers: np.ndarray, good: np.ndarray, bound: str, remedy: str) -> None:
    """Raise `InputError` for the first invalid row of a column; rows count from 1 after the header."""
    checks.require(len(numbers) > 0, f"{field} column {column}", "no values", "one value at least", remedy)
    bad = np.flatnonzero(~(good & np.isfinite(numbers)))
    if bad.size:
        where = f"values of {field} column {column}, row {bad[0] + 1}"
        raise checks.InputError(where, float(numbers[bad[0]]), bound, remedy)


def column(field: str, place: str) -> tuple[str, np.ndarray]:
    """Name and numbers of the column given as `file.csv`, `file.csv:column` or `file.csv:column*factor`."""
    factor = 1.0
    before, times, text = place.rpartition("*")
    if times and not os.path.exists(place):
        remedy = "write @delays.csv:reward_ms*0.001 for seconds of a column of milliseconds"
        place, factor = before.rstrip(), checks.real(f"{field} factor", number(text), remedy, 0.0, open_low=True)
    path, named = place, ""
    if not os.path.exists(place) and ":" in place:
        path, _, named = place.rpartition(":")
    if other := UNREAD.search(path):
        text, bound = f"{path[: other.start()]}.txt", "a .txt (one number a line), .csv, .jsonl or .parquet file"
        save = f"write np.savetxt('{text}', np.load('{path}').ravel())" if other[1] == "npy" else "save a .txt"
        raise checks.InputError(field, place, bound, f"{save}, and give {text}")
    remedy = "write @lengths.csv, or @lengths.parquet:column"
    with files.decoding(path, "JSON lines file" if path.endswith(LINES) else "CSV or Parquet file", remedy, field):
        columns = _columns(path)
    divided = re.fullmatch(r"(.+)/([1-9]\d*)", named)
    if divided and named not in columns:
        named, factor = divided[1], factor / int(divided[2])
    headless = [name for name in columns if is_number(name)]
    bound = "names, not numbers"
    checks.require(not headless, f"{field} column names", ", ".join(headless), bound, "put a line of names on top")
    numeric = [name for name, values in columns.items() if values.dtype.kind in "iuf"]
    if named in columns or (not named and len(columns) == 1):
        # Name the text that makes texts of a column whose other cells are numbers.
        own = named or next(iter(columns))
        cells = enumerate(columns[own] if columns[own].dtype.kind not in "iufb" else ())
        odd = [(row, cell) for row, cell in cells if cell is not None and not is_number(str(cell))]
        if odd and len(odd) < len(columns[own]):
            where = f"values of {field} column {own}, row {odd[0][0] + 1}"
            raise checks.InputError(where, odd[0][1], "a number", "write plain numbers, and no text among them")
    if named:
        known = numeric or ["none: no column of numbers"]
        alone = f"leave :{named} out, since a line of {path} is a number"
        choose = alone if path.endswith(".txt") else f"choose a column of numbers of {path}"
        checks.one_of(f"{field} column", named, known, choose)
    several = f"one of {', '.join(numeric) or 'none'}, as {path}:COLUMN"
    parts, fits = LIKELY["length" in field], [name for name in numeric if not OTHER.search(name)]
    likely = sorted(fits, key=lambda name: -sum(bool(re.search(part, name.lower())) for part in parts))
    remedy = f"write {path}:{(likely or ['COLUMN'])[0]}" if numeric else remedy
    if "length" in field and SUMMARY.search(own := named or [*likely, ""][0]):
        rows = "give a row a response, or use asyncsim calibrate LOG --preset NAME, which reads mean and maximum"
        raise checks.InputError(f"{field} column", own, "lengths of single responses, not a number of a step", rows)
    checks.require(bool(named) or len(numeric) == 1, f"{field} column", None, several, remedy)
    name = named or numeric[0]
    # A product beyond the largest number is refused as a row.
    with np.errstate(over="ignore"):
        return name, columns[name].astype(np.float64) * factor


def _columns(path: str) -> dict[str, np.ndarray]:
    """Columns of a table by name; of a Parquet file only numeric columns are read, the others are empty."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is a folder or a device")
    if path.endswith(".txt"):
        files.Budget(path).fit(TEXT * os.path.getsize(path))
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        odd = next((n for n, line in enumerate(lines) if any(isinstance(number(x), str) for x in line.split())), None)
        if odd is not None:
            remedy = "remove the line, or give it as a table, FILE.csv:COLUMN, whose first line has names"
            raise checks.InputError(f"line {odd + 1} of {path}", lines[odd], "numbers", remedy)
        return {"numbers": np.array(" ".join(lines).split(), dtype=np.float64)}
    if not path.endswith((".parquet", ".pq")):
        from pyarrow import BufferReader, csv, json

        files.Budget(path).fit(TEXT * os.path.getsize(path))
        # Given a path, the reader would unpack a compressed file of any length.
        data = Path(path).read_bytes()
        if path.endswith(LINES):
            table = json.read_json(BufferReader(data), json.ReadOptions(use_threads=False)).flatten()
        else:
            parse = csv.ParseOptions(delimiter=files.delimiter(data))
            table = csv.read_csv(BufferReader(data), csv.ReadOptions(use_threads=False), parse)
        return {name: table[name].to_numpy() for name in table.column_names}
    import pyarrow
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        types = {each.name: each.type for each in file.schema_arrow}
        numeric = [n for n, t in types.items() if pyarrow.types.is_integer(t) or pyarrow.types.is_floating(t)]
        # What is packed tightly may be long.
        files.Budget(path).fit(TEXT * file.metadata.num_rows * len(numeric))
        table = file.read(numeric, use_threads=False)
    return {name: table[name].to_numpy() if name in numeric else np.empty(0, dtype=object) for name in types}


def is_number(text: str) -> bool:
    """Whether a string is a finite number."""
    value = number(text)
    return isinstance(value, float) and math.isfinite(value)


def number(text: str) -> float | str:
    """Convert a table cell to a number if possible; else return the string."""
    try:
        return float(text)
    except ValueError:
        return text
