"""Rows of a user's data: JSONL and Parquet files, and folders that `datasets` saved."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from asyncsim.base import checks, files

Columns = dict[str, list[Any]]
"""Values of every column, in the order of the rows."""
FORMS = "a .jsonl or .parquet file, or a folder saved by datasets"
SPLITS = "dataset_dict.json"
"""The file that a folder with several splits has."""


def read(data: Any, split: str | None = None) -> tuple[Columns, str]:
    """The columns of a file or folder, and the first 12 hexadecimal digits of the SHA-256 of its contents.

    Raises `InputError` for a path that is missing, a file of another kind, a damaged one or one without rows.
    """
    path = files.named("data", data).expanduser()
    checks.require(path.exists(), "data", str(path), FORMS, "give the path of a file that exists")
    if path.is_dir():
        columns, digest = _folder(path, split)
    else:
        checks.require(split is None, "split", split, "absent for a file", "a file is one table: leave it out")
        files.Budget(path).fit(path.stat().st_size)
        known = {".jsonl": _lines, ".parquet": _parquet}
        checks.require(path.suffix in known, "data", str(path), FORMS, "write one JSON object per line, as .jsonl")
        with files.decoding(path, f"{path.suffix} file", "write the file again", "data"):
            columns, digest = known[path.suffix](path), _digest([path])
    count = len(next(iter(columns.values()), []))
    checks.require(count > 0, "rows of the data", count, "at least 1", f"put rows into {path}")
    return columns, digest


def _lines(path: Path) -> Columns:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                remedy = f"mend the line ({error})"
                raise checks.InputError(f"line {number} of {path}", line.strip()[:60], "JSON", remedy) from None
            checks.require(isinstance(row, dict), f"line {number} of {path}", row, "a JSON object", "write {...}")
            names = list(rows[0]) if rows else list(row)
            missing = sorted({*names} ^ {*row})
            field, remedy = f"line {number} of {path}", f"give every line the same names: {', '.join(missing)} differs"
            checks.require(not missing, field, ", ".join(row), f"the names {', '.join(names)}", remedy)
            rows.append(row)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _parquet(path: Path) -> Columns:
    from pyarrow import parquet

    # Threads that read may outlive the interpreter, which then ends by a signal.
    columns: Columns = parquet.read_table(path, use_threads=False).to_pydict()
    return columns


def _folder(path: Path, split: str | None) -> tuple[Columns, str]:
    try:
        import datasets
    except ImportError as error:
        remedy = "pip install datasets, or save the rows as .jsonl or .parquet"
        raise checks.InputError("package", "datasets", "installed (it reads folders)", remedy) from error
    with files.decoding(path, "folder saved by datasets", "save the data with save_to_disk", "data"):
        loaded = datasets.load_from_disk(str(path))
    if isinstance(loaded, Mapping):
        checks.require(split is not None, "split", split, f"one of {', '.join(loaded)}", "name a split of the folder")
        loaded = loaded[checks.one_of("split", str(split), list(loaded), "name a split of the folder")]
        path = path / str(split)
    else:
        checks.require(split is None, "split", split, "absent: this folder has no splits", "leave it out")
    return loaded.to_dict(), _digest(sorted(each for each in path.rglob("*") if each.is_file()))


def _digest(paths: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:12]


def column(columns: Columns, name: str, what: str, data: Any) -> list[Any]:
    """A column by its name; raises `InputError` that lists those of the data."""
    remedy = f"name a column of {data}: {', '.join(columns)}"
    known = isinstance(name, str) and name in columns
    checks.require(known, what, name, "a column of the data", remedy)
    return columns[name]


def filled(columns: Columns, form: str, data: Any) -> list[Any]:
    """A column by its name, or a format such as "Q: {question}" filled from the columns of every row."""
    if not isinstance(form, str) or form in columns or "{" not in form:
        return column(columns, form, "prompt", data)
    try:
        pieces = list(Formatter().parse(form))
    except ValueError as error:
        remedy = f"write {{name}} for a column, {{{{ for a bracket ({error})"
        raise checks.InputError("prompt", form, "a format of columns", remedy) from None
    plain = all(not spec and not conversion for _, name, spec, conversion in pieces if name is not None)
    checks.require(plain, "prompt", form, "a format of columns by name alone", "write {name}, without : and !")
    values = {name: column(columns, name, "prompt", data) for _, name, *_ in pieces if name is not None}
    count = len(next(iter(columns.values())))
    return ["".join(text + (str(values[name][q]) if name is not None else "") for text, name, *_ in pieces)
            for q in range(count)]  # fmt: skip
