"""Files: atomic writes that never replace a device or a link, and reads within a memory limit."""

import io
import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import weakref
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.memory import free

FORMAT = 1
"""Format version of saved schedules, timelines and traces."""
LIMIT = "ASYNCSIM_READ_LIMIT"
"""Environment variable with the memory in bytes that reading one file may take."""
READ = 4 << 30
"""The default limit, 4 GiB; it is never more than the free memory."""
TEXT = 32
"""Bytes of Python values per byte of JSON: an empty object has 2 letters and a comma, and takes 72 bytes."""
LONGEST = 1 << 24
"""Maximum size in bytes of a text file of settings."""
WRITES = 0o222
"""Mode bits of a file that permit writing, to its owner, group or others."""
GLANCE = 0.02
"""Seconds between attempts to take a lock that another process holds."""

Where = str | os.PathLike[str]


def named(field: str, path: Where) -> Path:
    """Convert the name of a file to a path; reject other types, such as integers, which would mean open files."""
    checks.require(isinstance(path, (str, os.PathLike)), field, path, "the name of a file", "give text or a Path")
    return Path(path)


def write_atomically(path: Where, write: Callable[[Any], None]) -> None:
    """Write a file atomically with `write(binary file)`: either the complete new file appears or the old one stays.

    A link stays, and its target is written. A device or a pipe is written to, never replaced, and so is the file to
    which standard output is redirected. Missing folders are created. Raises `InputError` where writing is impossible,
    and for a read-only file.
    """
    path = writable("path", path)
    try:
        status = _status_of(path)
        open_already = next((handle for handle in (1, 2) if status is not None and _same(handle, status)), None)
        if status is not None and (open_already is not None or not stat.S_ISREG(status.st_mode)):
            whole = io.BytesIO()
            write(whole)
            # Through a handle that is open on it, behind all that was printed.
            for stream in (sys.stdout, sys.stderr) if open_already is not None else ():
                with suppress(AttributeError, ValueError):  # a stream that is absent or closed
                    stream.flush()
            with open(os.open(path, os.O_WRONLY) if open_already is None else os.dup(open_already), "wb") as file:
                file.write(whole.getbuffer())
        else:
            _replace(Path(os.path.realpath(path)), write, status)
    except OSError as error:
        raise _unwritable("path", path, error) from None


def writable(field: str, path: Where) -> Path:
    """Check before long work that a file can be written at the path, creating missing folders; return the path."""
    path = named(field, path)
    try:
        status = _status_of(path)
        real = Path(os.path.realpath(path))
        above = next((parent for parent in real.parents if parent.exists()), real)
        room = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
        if room and status is None:
            # Folders of the system, as /proc, grant what they then refuse.
            with tempfile.TemporaryFile(dir=above):
                pass
        # A file that is read-only for everybody stays as it is, even for an administrator.
        permission = status is not None and os.access(path, os.W_OK) and bool(status.st_mode & WRITES)
    except (OSError, ValueError) as error:
        raise _unwritable(field, path, error) from None
    folder = status is not None and stat.S_ISDIR(status.st_mode)
    checks.require(not folder, field, str(path), "a file, not a folder", "add a file name")
    checks.require(status is None or permission, field, str(path), "writable, not read-only", "choose another path")
    plain = status is None or (stat.S_ISREG(status.st_mode) and not any(_same(handle, status) for handle in (1, 2)))
    checks.require(room or not plain, field, str(path), "writable", "choose another folder")
    return path


def _status_of(path: Path) -> os.stat_result | None:
    """Status of a path's target; None if there is no such file."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _same(handle: int, status: os.stat_result) -> bool:
    """Whether an open file descriptor of this process refers to the same file."""
    try:
        return os.path.samestat(os.fstat(handle), status)
    except OSError:
        return False


def _replace(path: Path, write: Callable[[Any], None], before: os.stat_result | None) -> None:
    """Write a temporary file in the same folder and rename it to the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A long name leaves no room for more letters.
    neighbor = path.with_name(f".{path.name[:50]}.{secrets.token_hex(4)}")
    with cleared(neighbor):
        handle = _open_nameless(path.parent)
        named = handle is None
        if handle is None:
            handle = os.open(neighbor, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with open(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(handle)
            if not named:
                # Given a folder's handle, Python links the file behind the link, not the link itself.
                os.link(_by_handle(handle), neighbor, src_dir_fd=handle, follow_symlinks=True)
        if before is not None:
            os.chmod(neighbor, stat.S_IMODE(before.st_mode))
        os.replace(neighbor, path)


def _open_nameless(folder: Path) -> int | None:
    """Open an unnamed file, which vanishes if the process ends; None where the system does not support it."""
    try:
        handle = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except (AttributeError, OSError):  # only Linux has them, and not on every file system
        return None
    if os.path.exists(_by_handle(handle)):
        return handle
    os.close(handle)
    return None


def _by_handle(handle: int) -> str:
    return f"/proc/self/fd/{handle}"


@contextmanager
def cleared(fresh: Path) -> Iterator[None]:
    """Remove a new file or folder if an error occurs, or if a signal ends the process meanwhile."""

    def remove() -> None:
        shutil.rmtree(fresh, ignore_errors=True)
        with suppress(OSError):
            os.unlink(fresh)

    def end(number: int, frame: Any) -> None:
        remove()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    ends = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ends = [number for number in ends if signal.getsignal(number) is signal.SIG_DFL]
    for number in ends:
        signal.signal(number, end)
    try:
        yield
    except BaseException:
        remove()
        raise
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def locked(place: Path, refusal: Exception, shared: bool = False, patience: float = 0.0) -> Iterator[None]:
    """Context that locks a folder, or an empty file made for it; the system frees it when the process ends.

    `shared`: allow others that share the lock. Raises `refusal` if the lock is held for longer than `patience` seconds.
    Systems and disks without such locks are not protected.
    """
    try:
        import fcntl

        held = os.open(place, os.O_RDONLY if place.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    except (ImportError, OSError):
        yield
        return
    end = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(held, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise refusal from None
                time.sleep(GLANCE)
            except OSError:  # a disk that has no locks
                break
        yield
    finally:
        os.close(held)


def delimiter(data: bytes) -> str:
    """The delimiter of a CSV file: the most frequent of `,`, `;` and tab in its first line.

    >>> delimiter(b"step;reward\\n0;1"), delimiter(b"step")
    (';', ',')
    """
    names = re.split(rb"[\r\n]", data.lstrip(b"\r\n"), maxsplit=1)[0]
    return max((b",", b";", b"\t"), key=names.count).decode()


class Temporary:
    """A temporary folder in `parent` or the system's, gone with this object or when the process ends or is killed."""

    def __init__(self, parent: Path | None = None) -> None:
        self.path = tempfile.mkdtemp(prefix="asyncsim-", dir=parent)
        command = ["/bin/sh", "-c", 'trap "" HUP INT TERM; read line; rm -rf -- "$1"', "sh", self.path]
        guard = None
        with suppress(OSError):  # where there is no shell, only a process that ends by itself leaves nothing
            # The end of its input tells the shell that this process is over, even where a signal killed it.
            guard = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self.remove = weakref.finalize(self, _removed, self.path, guard)


def _removed(path: str, guard: subprocess.Popen[bytes] | None) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if guard is not None and guard.stdin is not None:
        guard.stdin.close()
        guard.wait()


def _unwritable(field: str, path: Path, error: OSError | ValueError) -> checks.InputError:
    reason = getattr(error, "strerror", None) or error
    return checks.InputError(field, str(path), "writable", f"choose another path ({reason})")


def limit() -> int:
    """Maximum memory in bytes for reading one file: `ASYNCSIM_READ_LIMIT`, else the free memory, at most 4 GiB."""
    override = checks.size_of(LIMIT)
    return min(READ, free().size) if override is None else override


class Budget:
    """Memory budget in bytes for reading a file, and the part left; errors name a file that needs more."""

    def __init__(self, path: Where) -> None:
        self.path, self.most = path, limit()
        self.left = self.most

    def fit(self, size: int) -> None:
        """Raise `InputError` unless the budget has `size` bytes left, which a file declares."""
        if size > self.left:
            most = f"{self.most} bytes ({self.most / (1 << 30):.3g} GiB)"
            bound = f"one that takes at most {most} of memory when it is read"
            raise checks.InputError("path", str(self.path), bound, f"set {LIMIT} (as 16GiB) to read it all the same")

    def take(self, size: int) -> None:
        """Subtract `size` bytes from the memory budget."""
        self.fit(size)
        self.left -= size


@contextmanager
def decoding(path: Where, what: str, remedy: str, field: str = "path") -> Iterator[None]:
    """Context that converts any error of a decoder into an `InputError` that names the file."""
    named(field, path)
    try:
        yield
    except checks.InputError:
        raise
    except FileNotFoundError:
        raise checks.InputError(field, str(path), "an existing file", checks.beside(path) + remedy) from None
    except Exception as error:  # zlib.error, OverflowError, RecursionError, ...: every decoder has its own
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise checks.InputError(field, str(path), f"a whole {what} ({reason})", remedy) from None


@contextmanager
def well_formed(path: Where, kind: str) -> Iterator[None]:
    """Convert errors from missing, unknown or malformed parts of a file into an `InputError` that names it."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, checks.InputError) and not isinstance(error, checks.CallError):
            raise
        bound = f"a {kind} file with all its parts and no others ({error})"
        raise checks.InputError("path", str(path), bound, f"write it again with {kind}.save()") from None


def read_mapping(path: Where, what: str = "spec") -> dict[str, Any]:
    """Read the mapping in a JSON, YAML or TOML file (by its suffix); values have plain types only."""
    import yaml

    remedy = "write it as JSON, or as YAML, indented by spaces, in a file that ends in .yaml"

    class Plain(yaml.SafeLoader):
        """A loader of plain values without aliases, which could expand beyond the memory."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("an alias; write the value again")
            return super().compose_node(parent, index)

    # YAML 1.1 takes 1e-3 for text.
    Plain.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
    )
    with decoding(path, f"{what} file", remedy):
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
        checks.require(len(data) <= LONGEST, "path", str(path), f"at most {LONGEST} bytes long", remedy)
        text = data.decode("utf-8")
        kind = os.path.splitext(path)[1]
        try:
            other = tomllib if kind == ".toml" else json
            rows = yaml.load(text, Loader=Plain) if kind in (".yaml", ".yml") else other.loads(text)
        except yaml.MarkedYAMLError as error:
            number = getattr(error.context_mark or error.problem_mark, "line", 0) + 1
            line, wrong = text.split("\n")[number - 1], f"{error.context} {error.problem}"
            ways = {"\t": "indent it by spaces, not by a tab", "flow": "close each brace, or quote the value"}
            ways |= {"could not find": "write it as NAME: VALUE", "": "indent it as its neighbors, or quote its value"}
            remedy = next(way for part, way in ways.items() if part in wrong + line)
            bound = f"a whole {what} file (line {number}, {line.strip()!r}: {error.problem})"
            raise checks.InputError("path", str(path), bound, f"line {number}: {remedy}") from None
    checks.require(isinstance(rows, dict), "path", str(path), f"a {what} file: a mapping", remedy)
    return dict(rows)


def ends_in_npz(field: str, path: Where, remedy: str) -> None:
    """Reject a path for arrays whose suffix promises text, such as x.csv."""
    checks.require(named(field, path).suffix.lower() in (".npz", ""), field, str(path), "a path ending in .npz", remedy)


def save_arrays(
    path: Where, kind: str, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any], compressed: bool = True
) -> None:
    """Write named arrays and JSON scalars to one file, atomically."""
    header = json.dumps({"kind": kind, "format": FORMAT, "scalars": scalars})
    packed = {"__header__": np.frombuffer(header.encode(), dtype=np.uint8), **arrays}
    # savez keeps mapping keys that contain "/" as they are; only its keyword form restricts them.
    write: Callable[..., None] = np.savez_compressed if compressed else np.savez
    write_atomically(path, lambda file: write(file, **packed))


def load_arrays(path: Where, kind: str, remedy: str | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file of `save_arrays`; raises `InputError` if missing, damaged, too big, or of another kind or format."""
    remedy = remedy or f"write it again with {kind}.save()"
    arrays = packed_arrays(path, f"{kind} file", remedy, text="__header__")
    with decoding(path, f"{kind} file", remedy):
        header = json.loads(arrays.pop("__header__").tobytes().decode())
        kind_and_format, scalars = (header["kind"], header["format"]), dict(header["scalars"])
    remedy = "write sim.run(spec, resume=path)" if kind_and_format[0] == "checkpoint" else remedy
    bound = f"a {kind} file of format {FORMAT}, not {kind_and_format[0]} {kind_and_format[1]}"
    checks.require(kind_and_format == (kind, FORMAT), "path", str(path), bound, remedy)
    return arrays, scalars


def kind_of(path: Where) -> str:
    """Kind of a file that `save_arrays` wrote, such as trace or schedule, from its header."""
    remedy = "give the path of a saved trace or of a checkpoint"
    with decoding(path, "saved file", remedy), zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("__header__.npy")
        Budget(path).fit(TEXT * entry.file_size)
        return str(json.loads(_array(archive, entry).tobytes().decode())["kind"])


def packed_arrays(path: Where, what: str, remedy: str, text: str = "", field: str = "path") -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name; `text` names the one with JSON. Raises `InputError` as `load_arrays`."""
    with decoding(path, what, remedy, field):
        if not os.path.isfile(path) and os.path.exists(path):
            raise ValueError("it is a folder or a device")
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            if len(entries) < len(archive.infolist()):
                raise ValueError("two entries have one name")
            # Twice: checks of what was read take as much again.
            times = {text: TEXT}
            Budget(path).fit(sum(entry.file_size * times.get(name, 2) for name, entry in entries.items()))
            return {name: _array(archive, entry) for name, entry in entries.items()}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """Read one array, whose header must declare the size of its entry."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it is compressed in another way")
    with archive.open(entry) as file:
        major = np.lib.format.read_magic(file)[0]
        head = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = head(file)
        count = 1
        for length in shape:
            count *= length
        plain = dtype.kind in "biufU" and dtype.itemsize > 0 and all(length >= 0 for length in shape)
        if not plain or file.tell() + count * dtype.itemsize != entry.file_size:
            raise ValueError("its parts are of other types or sizes than it declares")
    with archive.open(entry) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
