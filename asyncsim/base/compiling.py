"""Functions compiled by numba with a disk cache that tolerates missing folders, full disks and damaged files.

numba itself stops a program if no folder is writable, and after the work if the disk is full. It stops at every call
if a cached file is damaged, and it would run machine code with flipped bits. Here each case ends in one line on
stderr. Processes that need the same function at the same time wait for the one that compiles it.
"""

import hashlib
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from asyncsim.base import checks, files

SUM = 16
"""Bytes of the digest at the end of every cached file; pickle readers stop before it."""
_NOWHERE = "compiled code is not kept: no folder for it is writable; set NUMBA_CACHE_DIR to one that is"
PATIENCE = 120.0
"""Seconds that a process waits for another one to compile; after that it compiles the function itself."""
_reported: set[str] = set()


def kept(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with a disk cache; if the cache fails, the function is compiled anew, and a line is printed."""

    def compile_function(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        try:
            dispatcher._cache = _DiskCache(function)
        except (RuntimeError, OSError):  # no folder of any kind can be written
            report("kept", _NOWHERE)
        return dispatcher

    return compile_function


def report(kind: str, text: str) -> None:
    """Print the first message of a kind, and drop later ones, since many functions share one cause."""
    if kind not in _reported:
        _reported.add(kind)
        print(f"asyncsim: {text}", file=sys.stderr)


def _damaged(folder: object) -> None:
    report("damaged", f"kept code in {folder} is damaged and is compiled anew")


def _not_kept(folder: object, error: BaseException) -> None:
    reason = getattr(error, "strerror", None) or error
    report("kept", f"compiled code is not kept in {folder} ({reason}); set NUMBA_CACHE_DIR to another folder")


class _DiskCache(FunctionCache):
    """numba's cache of one function, made robust: a damaged file or a full disk only costs time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        locator = self._impl.locator
        # A name of its own: files that numba wrote have no digest.
        name = f"{self._impl.filename_base}-kept"
        self._cache_file = _Files(self._cache_path, name, locator.get_source_stamp())
        self._turn = _Turn(Path(self._cache_path, f"{name}.lock"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code, or None; after None this process holds the lock for compiling it."""
        found = self._read(sig, target_context)
        if found is None and self._turn.take():
            found = self._read(sig, target_context)
            if found is not None:
                self._turn.give()
        return found

    def _read(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a pickle that is not one raises whatever it likes
            _damaged(self._cache_path)
            self._try(self.flush)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code if possible, and release the lock."""
        self._try(super().save_overload, sig, data)
        self._turn.give()

    def _try(self, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        except Exception as error:  # full, read-only, or gone since numba looked
            cause = error.__context__ if isinstance(error.__context__, OSError) else error
            _not_kept(self._cache_path, cause)
            self.disable()


class Shelf:
    """Store of machine code by name in a function's numba cache folder; the least recently used is deleted first."""

    def __init__(self, function: Callable[..., Any], most: int = 256) -> None:
        self.most, self.folder = most, None
        try:
            self.folder = Path(FunctionCache(function)._cache_path)
        except (RuntimeError, OSError):
            report("kept", _NOWHERE)

    def read(self, name: str) -> bytes | None:
        """Machine code stored under a name; None if there is none, or if its file is damaged."""
        path = self._path(name)
        if path is None or not path.is_file():
            return None
        try:
            data = path.read_bytes()
        except OSError:  # gone, or not ours to read
            return None
        if _digest(data[:-SUM]) != data[-SUM:]:
            _damaged(self.folder)
            return None
        with suppress(OSError):
            path.touch()  # the least used go first
        return data[:-SUM]

    def write(self, name: str, data: bytes) -> None:
        """Store machine code under a name, if the folder can be written."""
        path = self._path(name)
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, lambda file: file.write(data + _digest(data)))
            for old in sorted(path.parent.glob("*.program"), key=lambda x: x.stat().st_mtime)[: -self.most]:
                old.unlink(missing_ok=True)
        except (OSError, checks.InputError) as error:
            _not_kept(self.folder, error)
            self.folder = None

    def _path(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{name}.program"


class _Turn:
    """A lock for compiling a function, released by the system when its process ends."""

    def __init__(self, path: Path) -> None:
        self._path, self._mine, self._held = path, False, ExitStack()

    def take(self) -> bool:
        """Wait for the lock; False if it is unavailable, or still held after a failed compilation."""
        if self._mine:
            return False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(files.locked(self._path, TimeoutError(), patience=PATIENCE))
        except OSError:
            return False
        self._mine = True
        return True

    def give(self) -> None:
        """Release the lock."""
        self._held.close()
        self._mine = False


class _Files(IndexDataCacheFile):
    """Index and code files that are written atomically and end with a digest, checked before use."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        whole = io.BytesIO()
        yield whole
        data = whole.getvalue()
        files.write_atomically(filepath, lambda file: file.write(data + _digest(data)))

    def _load_index(self) -> Any:
        self._check(Path(self._index_path))
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        self._check(Path(self._data_path(name)))
        return super()._load_data(name)

    def _check(self, path: Path) -> None:
        if path.exists():
            data = path.read_bytes()
            if _digest(data[:-SUM]) != data[-SUM:]:
                raise ValueError(f"{path} is damaged")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SUM).digest()
