"""Where the rows of a log are: one file, a folder with a file for each step or shard, or a pattern of names."""

import glob
import gzip
import hashlib
import io
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from asyncsim.base import checks, files

KINDS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pt", ".pth", ".pkl", ".pickle")
"""Kinds of files that are read."""
REMEDY = "write the log as .csv, .jsonl or .parquet (.csv.gz, .jsonl.gz and .jsonl.zst too)"
PATH = "path:"
"""Begins the name of a column that is read off the path of each file: `path:step_#` is the number behind `step_`."""


class Place(NamedTuple):
    """One file of a log, and its name relative to the given folder."""

    path: Path
    name: str


def found(path: Path, pattern: str) -> list[Place]:
    """Files of a log in the order of the numbers in their names; in a folder, those that match the pattern."""
    if path.is_dir():
        # Folders may go while they are listed.
        names = [Path(folder, name) for folder, _, inside in os.walk(path) for name in inside]
        names = [p for p in names if kind_of(p) and p.is_file()]
        kept = [p for p in names if not pattern or p.relative_to(path).match(pattern)]
        bound = f"a folder with files {pattern}" if pattern else "a folder with files ending in " + ", ".join(KINDS)
        checks.require(bool(kept), "path", str(path), bound, "give the folder that the run wrote its samples to")
        return _ordered([Place(p, p.relative_to(path).as_posix()) for p in kept])
    if not path.exists() and glob.has_magic(str(path)):
        kept = [Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file()]
        checks.require(bool(kept), "path", str(path), "a pattern that some file fits", "correct the pattern")
        for each in kept:
            _require_kind(each)
        return _ordered([Place(p, p.as_posix()) for p in kept])
    last = str(path).partition("=")[2]
    remedy = f"write --set {path}, or {last} alone if it is a log" if last else "give the log that the run wrote"
    if not path.suffix and not last:
        claim = "of a claim: sim.claims.claim(id).predict(point)" if "/" in str(path) else ""
        remedy += f"; {claim or '`asyncsim list logs` says what trainers log'}"
    remedy = checks.beside(path) + remedy if not path.exists() else remedy
    checks.require(path.is_file(), "path", str(path), "an existing file or folder", remedy)
    _require_kind(path)
    return [Place(path, path.as_posix())]


def kind_of(path: Path) -> str | None:
    """Kind of a log file by its name; None if it is no log."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in KINDS else None


def _require_kind(path: Path) -> None:
    kind = "tfevents" if "tfevents" in path.name else path.suffix.lower()
    remedy = checks.advice(kind, "file", otherwise=REMEDY).format(path.name)
    checks.require(kind_of(path) is not None, "path", str(path), "a file ending in " + ", ".join(KINDS), remedy)


def _ordered(places: list[Place]) -> list[Place]:
    """Sort by the texts and numbers of names, so that step_10 follows step_9."""

    def key(place: Place) -> list[tuple[bool, int, str]]:
        return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", place.name)]

    return sorted(places, key=key)


def number(column: str, place: Place) -> int | None:
    """Number at `#` in the path of a log file; None if the path has none.

    >>> number("path:step_#", Place(Path("run/step_12/traces.jsonl"), "step_12/traces.jsonl"))
    12
    """
    shape = re.escape(column.removeprefix(PATH)).replace(r"\#", r"(\d+)")
    match = re.search(rf"(?:^|/){shape}(?:/|$)", place.name) or re.search(shape, place.name)
    return int(match.group(1)) if match and match.groups() else None


def digest(places: list[Place]) -> str:
    """SHA-256 that identifies a log: of the bytes of its file, or of names and bytes of several files."""
    if len(places) == 1:
        path, remedy = places[0].path, "read a copy of the log, or read it when the run has ended"
        with files.decoding(path, "log file", remedy), open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    whole = hashlib.sha256()
    for place in places:
        whole.update(f"{place.name}\0{digest([place])}\0".encode())
    return whole.hexdigest()


def opened(path: Path) -> Any:
    """Open a log file for reading, decompressed according to its name."""
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")
