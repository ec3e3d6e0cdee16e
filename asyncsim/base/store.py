"""A store of results: named files in a folder or a bucket, written atomically."""

import errno
import hashlib
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks, digests, files
from asyncsim.base.manifest import manifest

FORMAT = 2
"""Format version of the store, of its unit files and of the descriptions of units."""
HEADER = "store.json"
"""The file that marks a folder as a store."""
KIND = "asyncsim results"
TRAINING = "training"
"""Kind of a unit that is one training run of a comparison, with the curves of one metric."""
NOTE = b"asyncsim"
"""Metadata key of a Parquet file for the JSON object that `pack` stores about the rows."""
SEALED = "sealed by sha256"
SEAL, UNSEALED = f'{{"{SEALED}": "'.encode(), b"0" * 64
"""Text before the digest in such a file, and the placeholder for the digest while it is computed."""
TRASH = "trash"
"""The folder for files that are set aside; it is never read."""
OWN = ("units/", "trainings/", "sweeps/", "failed/", f"{TRASH}/")
"""Top-level folders of a store."""
CELL = 64
"""Maximum memory in bytes per cell of a table while it is read, in addition to its text."""
AT_ONCE = 32
"""Number of files of a bucket that are read in parallel."""
DIRECT = ("s3", "gcs", "abfs")
"""File systems in which a file appears only when it is complete; elsewhere files are renamed at the end."""


class Store:
    """Named files in a local folder, or at the address of a bucket (s3://, gs://, abfs://, hdfs://).

    Files are read and written with pyarrow's file systems. A write is atomic: if the process is killed, the old file
    stays. Names are relative, with "/" between folders.

    Arguments: `where`, a folder, or a URI as `pyarrow.fs.FileSystem.from_uri` takes it. Raises `InputError` for an
    address that no file system understands, or a place that cannot be written.
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.where = os.fspath(where)
        self._system: Any = None  # the machine's own
        remedy = "give a folder, or an address such as s3://bucket/folder"
        checks.require(bool(self.where), "store", self.where, "a folder or an address", remedy)
        scheme, separator, rest = self.where.partition("://")
        if not separator or scheme == "file":
            self._root = os.path.abspath(rest if separator else self.where)
            return
        import pyarrow
        from pyarrow import fs

        try:
            self._system, path = fs.FileSystem.from_uri(self.where)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            bound = f"an address ({' '.join(str(error).split())[:120]})"
            raise checks.InputError("store", self.where, bound, remedy) from None
        whole = bool(path.strip("/"))
        checks.require(whole, "store", self.where, "an address with a bucket and a folder", remedy)
        self._root = path.rstrip("/")

    def __repr__(self) -> str:
        return f"Store({self.where!r})"

    @property
    def folder(self) -> Path | None:
        """Local folder of the store; None for a bucket."""
        return Path(self._root) if self._system is None else None

    def write(self, name: str, data: bytes) -> None:
        """Write a file to the store, replacing a file of the same name."""
        with self._reachable():
            if self._system is None:
                try:
                    files.write_atomically(Path(self._root, name), lambda file: file.write(data))
                except checks.InputError as error:
                    # The cause has the reason that a caller asks for, such as a full disk.
                    cause = error.__context__
                    reason = "no right to write, or a file where a folder is needed"
                    raise (cause if isinstance(cause, OSError) else OSError(errno.EACCES, reason)) from None
                return
            path = f"{self._root}/{name}"
            direct = self._system.type_name in DIRECT
            if not direct:
                self._system.create_dir(path.rpartition("/")[0], recursive=True)
            fresh = path if direct else f"{path}.{os.getpid()}.part"
            with self._system.open_output_stream(fresh) as stream:
                stream.write(data)
            if not direct:
                self._system.move(fresh, path)

    def read(self, name: str) -> bytes:
        """Bytes of a file in the store; raises FileNotFoundError if it does not exist."""
        with self._reachable(reads=True):
            if self._system is None:
                return Path(self._root, name).read_bytes()
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())

    def read_all(self, names: Iterable[str]) -> Iterator[bytes]:
        """Bytes of many files in order; those of a bucket are fetched in parallel."""
        if self._system is None:
            yield from map(self.read, names)
            return
        left = iter(names)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            while some := list(itertools.islice(left, 8 * AT_ONCE)):
                yield from threads.map(self.read, some)

    def has(self, name: str) -> bool:
        """Whether a file exists in the store."""
        with self._reachable():
            if self._system is None:
                return Path(self._root, name).is_file()
            return bool(self._system.get_file_info(f"{self._root}/{name}").is_file)

    def set_aside(self, names: Iterable[str]) -> str:
        """Move files to a folder below `TRASH` that is named after the current time, and return that folder."""
        folder = f"{TRASH}/{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        with self._reachable():
            for name in names:
                old, new = (f"{self._root}/{each}" for each in (name, f"{folder}/{name}"))
                if self._system is None:
                    Path(new).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(old, new)
                    continue
                if self._system.type_name not in DIRECT:
                    self._system.create_dir(new.rpartition("/")[0], recursive=True)
                self._system.move(old, new)
        return folder

    @contextmanager
    def held(self, alone: bool = False) -> Iterator[None]:
        """Lock the store, shared or `alone`; raises `InputError` if it is in use. A bucket is not locked."""
        remedy = "wait until the other command on this store is over"
        refusal = checks.InputError("store", self.where, "in use by one command at a time", remedy)
        with nullcontext() if self.folder is None else files.locked(self.folder, refusal, shared=not alone):
            yield

    def names(self, folder: str = "") -> Iterator[str]:
        """Names of all files below a folder of the store, in order, without hidden files."""
        if self._system is None:
            with self._reachable():
                yield from _names(Path(self._root), folder)
            return
        from pyarrow import fs

        base = f"{self._root}/{folder}" if folder else self._root
        with self._reachable():
            found = self._system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        for info in sorted(found, key=lambda info: info.path):
            if info.is_file and not info.base_name.startswith("."):
                yield info.path.removeprefix(f"{self._root}/")

    def size(self, name: str) -> int:
        """Size of a file in the store, in bytes."""
        if self._system is None:
            return Path(self._root, name).stat().st_size
        with self._reachable():
            return int(self._system.get_file_info(f"{self._root}/{name}").size)

    @contextmanager
    def _reachable(self, reads: bool = False) -> Iterator[None]:
        """Convert errors of a file system into an `InputError` that names the store, except for a missing file."""
        try:
            yield
        except (OSError, ValueError) as error:
            if isinstance(error, checks.InputError) or (reads and isinstance(error, FileNotFoundError)):
                raise
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:160]
            remedy = "check the address, the rights and the room there, or choose another store"
            raise checks.InputError("store", self.where, f"reachable and writable ({reason})", remedy) from None


def _names(root: Path, folder: str, above: frozenset[str] = frozenset()) -> Iterator[str]:
    """Files below a folder, following links; links to a parent folder are skipped."""
    base = root / folder
    if not base.is_dir():
        return
    entries = sorted(os.scandir(base), key=lambda entry: entry.name)
    for entry in entries:
        name = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name.startswith("."):
            continue
        real = os.path.realpath(entry.path) if entry.is_symlink() else ""
        if real in above or (real and base.resolve().is_relative_to(real)):
            continue
        if os.path.isdir(real) if real else entry.is_dir():
            yield from _names(root, name, above | {real} if real else above)
        else:
            yield name


def opened(where: str, make: bool = True) -> Store:
    """Open the store at a path, and create it there if the path is empty (`make`)."""
    store = Store(where)
    remedy = "choose another folder; `asyncsim results ls` reads stores of this version"
    if not store.has(HEADER):
        one = f"this is one run: sim.Trace.load({where!r})" if os.path.isfile(where) else "name it: --store FOLDER"
        checks.require(make, "store", where, "one that `sweep` or `compare --store` made", one)
        foreign = next((name for name in store.names() if not name.startswith(OWN)), None)
        checks.require(foreign is None, "store", where, f"empty, or a store (it has {foreign})", remedy)
        store.write(HEADER, json.dumps({"kind": KIND, "format": FORMAT}).encode() + b"\n")
        return store
    try:
        header = json.loads(store.read(HEADER))
        known = (header["kind"], header["format"])
    except (ValueError, TypeError, KeyError, RecursionError):
        known = (None, None)
    bound = f"a store of format {FORMAT}, not {known[0]} of format {known[1]}"
    checks.require(known == (KIND, FORMAT), "store", where, bound, remedy)
    return store


def keys_of(told: Mapping[str, Any]) -> tuple[str, str]:
    """Digest of a unit's description, and the unit's key: a digest of the description and of the code that runs it."""
    asked = digests.of({name: value for name, value in told.items() if name != "code"}, 32)
    return asked, digests.of([asked, told["code"]], 32)


def unit_of(key: str) -> str:
    """File name of a unit of a sweep in the store."""
    return f"units/{key[:2]}/{key}.parquet"


def name_of(told: Mapping[str, Any]) -> str:
    """Name of the file of a unit; trainings of a comparison are grouped by description, whatever the code."""
    asked, key = keys_of(told)
    return f"trainings/{asked}/{key}.parquet" if told["kind"] == TRAINING else unit_of(key)


def unit_file(columns: Mapping[str, Any], told: Mapping[str, Any], **more: Any) -> bytes:
    """Content of a unit's file: its rows, description, digest of the rows, manifest, and `more` about it."""
    import pyarrow as pa

    rows = content(pa.table(dict(columns)))
    about = {"format": FORMAT, "key": keys_of(told)[1], "told": told, "rows": rows, "made": manifest()}
    return pack(columns, about | more)


def unit_rows(data: bytes, name: str, key: str, remedy: str) -> Any:
    """The rows of a unit's file as a pyarrow table; raises `InputError` if damaged, altered or of another unit."""
    table, about = unpack(data, name, remedy)
    checks.require(about.get("key") == key, "rows", name, "the unit that its name says", remedy)
    return table


def pack(columns: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> bytes:
    """Pack columns of equal length into a Parquet file, with a JSON object about them in its metadata.

    Repeated texts are stored once. A file with such an object is sealed with a digest of all its bytes. Raises
    pyarrow's error if a column has several types.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(columns))
    if about is not None:
        note = json.dumps(dict(about)).removeprefix("{").encode()
        table = table.replace_schema_metadata({NOTE: SEAL + UNSEALED + (b'", ' if len(about) else b'"') + note})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    data = buffer.getvalue()
    place, digest = _seal(data)
    return data[:place] + digest + data[place + len(digest) :] if about is not None else data


def _seal(data: bytes) -> tuple[int, bytes]:
    """Position of the digest in a sealed file, and its correct value; (-1, b"") for other files."""
    place = data.rfind(SEAL) + len(SEAL)
    if place < len(SEAL):
        return -1, b""
    whole = hashlib.sha256(memoryview(data)[:place])
    whole.update(UNSEALED)
    whole.update(memoryview(data)[place + len(UNSEALED) :])
    return place, whole.hexdigest().encode()


def unpack(data: bytes, name: str, remedy: str = "remove it and make it again") -> tuple[Any, dict[str, Any]]:
    """The pyarrow table in a Parquet file, and the JSON object that `pack` stored; messages call the file `name`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.decoding(name, "Parquet file", remedy, "rows"):
        place, digest = _seal(data)
        if data[place : place + len(digest)] != digest:
            raise ValueError("it was changed since it was written")
        # A file of Python's would be read by a thread that ends one process in twenty with status 134 at its exit.
        held = pq.ParquetFile(pa.BufferReader(data))
        # Few bytes can hold many rows: what they declare is asked before they are unpacked.
        files.Budget(name).fit(held.metadata.num_rows * held.metadata.num_columns * CELL)
        note = (held.metadata.metadata or {}).get(NOTE)
        if note and not digest:
            raise ValueError("it was not sealed")
        about = json.loads(note) if note else {}
        about.pop(SEALED, None)
        return held.read(use_threads=False).replace_schema_metadata(None), about


def content(table: Any) -> str:
    """Digest of the rows of a pyarrow table, equal only for bitwise equal numbers; 32 hexadecimal digits."""
    total = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name).to_numpy()
        total.update(f"{name} {column.dtype} {len(column)}".encode())
        if column.dtype == object:
            total.update(json.dumps(column.tolist()).encode())
        else:
            total.update(np.ascontiguousarray(column).tobytes())
    return total.hexdigest()[:32]
