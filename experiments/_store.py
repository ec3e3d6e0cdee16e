"""Result rows on disk: one Parquet file per setting, written whole or not at all, beside a manifest."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from asyncsim import checks
from asyncsim.manifest import manifest
from asyncsim.plugins import summaries
from asyncsim.records import plain, write_atomically

FORMAT = 1
HERE = Path(__file__).resolve().parent


def names() -> dict[str, str]:
    """Experiments with the first line of their docstrings."""
    return summaries("experiments")


def experiment(name: str) -> Any:
    """The module of an experiment, its contract checked; kebab and snake case.

    Raises `InputError` for an unknown name or a file that breaks the contract of `experiments`.
    """
    snake, known = name.replace("-", "_"), names()
    near = difflib.get_close_matches(snake, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see `python -m experiments --list`"
    checks.one_of("experiment", snake, known, hint)
    module = importlib.import_module(f"experiments.{snake}")
    for field in ("SETTINGS", "QUICK"):
        settings = getattr(module, field, None)
        listed = isinstance(settings, list) and bool(settings) and all(isinstance(s, dict) for s in settings)
        checks.require(listed, f"{snake}.{field}", settings, "a list of dicts", "give one dict per part of the rows")
    columns = getattr(module, "COLUMNS", None)
    checks.require(
        isinstance(columns, (list, tuple)) and bool(columns) and all(isinstance(c, str) for c in columns),
        f"{snake}.COLUMNS",
        columns,
        "a list of names",
        "name what a row holds",
    )
    checks.require(callable(getattr(module, "run", None)), f"{snake}.run", None, "a function", "define run(setting)")
    return module


def folder(name: str, quick: bool) -> Path:
    """Where rows live: full runs in the repository, quick ones under build/."""
    snake = name.replace("-", "_")
    return HERE.parent / "build" / "experiments" / snake if quick else HERE / "results" / snake


def digest(module: Any, quick: bool) -> str:
    """Version of the rows: settings and columns, 16 hexadecimal digits."""
    text = json.dumps(plain([FORMAT, settings_of(module, quick), list(module.COLUMNS)]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settings_of(module: Any, quick: bool) -> list[dict[str, Any]]:
    """SETTINGS, or QUICK."""
    return module.QUICK if quick else module.SETTINGS


def command(name: str, quick: bool) -> str:
    """What makes the rows."""
    return f"python -m experiments {name.replace('-', '_')}" + (" --quick" if quick else "")


def make(
    name: str,
    quick: bool = False,
    resume: bool = False,
    out: Path | None = None,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
    device: str = "cpu",
) -> Path:
    """Run every setting of an experiment and write its rows; returns their folder.

    Arguments: `resume` keeps finished parts of the same settings; `out` overrides `folder`; `track` wraps the loop over
    the indices of settings that are left, for a progress bar; `device` is where the networks of experiments that take
    one run, and goes into the manifest.
    Raises `InputError` for an unknown name, a resume on rows of other settings, or rows without the declared columns.
    """
    module = experiment(name)
    where = out or folder(name, quick)
    settings = settings_of(module, quick)
    known = getattr(module, "DEVICES", ("cpu",))
    checks.one_of("device", device, known, "leave --device out, or choose an experiment on networks")
    elsewhere = {} if device == "cpu" else {"device": device}
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise checks.InputError("out", str(where), "a writable folder", error.strerror or "choose another") from None
    _begin(where, name, module, quick, resume, device)
    left = [index for index in range(len(settings)) if not _part(where, index).exists()]
    for index in track(left):
        rows = module.run({**settings[index], **elsewhere})
        _check(name, rows, module.COLUMNS)
        _write(_part(where, index), rows, module.COLUMNS)
    return where


def read(name: str, quick: bool = False, out: Path | None = None) -> Any:
    """All rows of an experiment as a pandas table with the declared columns.

    Raises `InputError`, naming the command that makes them, where rows are missing, of other settings or other columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    module = experiment(name)
    where = out or folder(name, quick)
    remedy = f"make them with `{command(name, quick)}`"
    found = _manifest(where)
    if found is None:
        raise checks.InputError("rows", where.name, "made before they are read", remedy)
    _same(found, module, quick, where.name, remedy)
    parts = [_part(where, index) for index in range(len(settings_of(module, quick)))]
    missing = [part.name for part in parts if not part.exists()]
    checks.require(not missing, "rows", missing, "complete", remedy + " --resume")
    try:
        tables = [pq.read_table(part) for part in parts]
    except (pa.ArrowException, OSError):
        raise checks.InputError("rows", where.name, "whole Parquet files", remedy) from None
    table = pa.concat_tables(tables, promote_options="permissive")
    columns = list(module.COLUMNS)
    checks.require(table.column_names == columns, "columns", table.column_names, f"exactly {columns}", remedy)
    return table.to_pandas()


def _begin(where: Path, name: str, module: Any, quick: bool, resume: bool, device: str) -> None:
    """Leave the folder with a manifest of these settings, and only parts that belong to it."""
    record = where / "manifest.json"
    found = _manifest(where)
    settings = settings_of(module, quick)
    seeds = {setting.get("seed") for setting in settings}
    spec = {"experiment": name.replace("-", "_"), "quick": quick, "settings": settings}
    now = manifest(spec, seed=seeds.pop() if len(seeds) == 1 else None, device=device)
    entry: dict[str, Any] = {"format": FORMAT, "digest": digest(module, quick), **now, "resumed": []}
    if resume and found is not None:
        _same(found, module, quick, where.name, "run without --resume to replace them")
        entry = {**found, "resumed": [*found.get("resumed", []), {**now, "spec": None}]}
    else:
        # The manifest goes first: parts without one belong to nobody, so a kill in between leaves nothing to mistake.
        for path in [record, *where.glob("part-*.parquet")]:
            path.unlink(missing_ok=True)
    for abandoned in where.glob(".part-*"):
        abandoned.unlink()
    write_atomically(record, lambda file: file.write(json.dumps(entry, indent=1).encode() + b"\n"))


def _same(found: dict[str, Any], module: Any, quick: bool, where: str, remedy: str) -> None:
    mine = digest(module, quick)
    theirs = found.get("digest")
    checks.require(theirs == mine, f"settings of the rows in {where}", theirs, f"{mine}, the experiment's own", remedy)


def _manifest(where: Path) -> dict[str, Any] | None:
    """The manifest of the rows there; None where there is none, refused where the file is somebody else's."""
    path = where / "manifest.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    ours = isinstance(found, dict) and "digest" in found
    checks.require(ours, "manifest", str(path), "one that `python -m experiments` wrote", "choose another folder")
    return found


def _part(where: Path, index: int) -> Path:
    return where / f"part-{index:04d}.parquet"


def _check(name: str, rows: Any, columns: Iterable[str]) -> None:
    checks.require(
        isinstance(rows, list) and bool(rows),
        f"rows of {name}",
        rows,
        "a list of at least one dict",
        "say in a row why there is nothing",
    )
    for row in rows:
        checks.require(
            set(row) == set(columns),
            f"columns of {name}",
            sorted(row),
            f"exactly {sorted(columns)}",
            "let run(setting) give what COLUMNS declares",
        )


def _write(path: Path, rows: list[dict[str, Any]], columns: Iterable[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({column: [row[column] for row in rows] for column in columns})
    write_atomically(path, lambda file: pq.write_table(table, file))
