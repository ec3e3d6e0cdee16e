"""Output streams of a command: files that are written one by one, and pages that tolerate a closed pipe.

Also a message while the event kernel is compiled, since ten seconds without output look like a hang.
"""

import contextvars
import errno
import functools
import importlib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from asyncsim.base import checks, files, pages, records

LOST = 4
"""Exit status if a requested output could not be written."""
UNREAD = 5
"""Exit status if the command succeeded, but stdout was closed or full."""
READ = 128 + 13
"""Exit status if the command succeeded, but the reader of stdout left: the shell's value for SIGPIPE."""
WIDEST = 110
"""Columns up to which lines are easy to read."""
KERNEL = "asyncsim.systems._kernel"
COLORS = {r"\bis\s+better\s+than\b|  better$": 32, r"\bis\s+worse\s+than\b|  worse$": 31}
COLORS |= {r"(?<=[: ] )(undecided|not distinguishable on this task|cannot tell)\b|^cannot tell\b": 33}
"""Colors of verdicts, which stand before the first empty line of an answer."""
LINE = "compiling the event kernel, once after an installation (about ten seconds)"


class Stream:
    """A text stream that never raises: output after its first failure is discarded."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failure: OSError | ValueError | None = None
        if stream is None:
            self.failure = OSError(errno.EBADF, "closed before the start")
        elif getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            # A sign that the terminal's encoding lacks is no reason to lose the page.
            stream.reconfigure(errors="replace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.failure is None and bool(self.stream.isatty())

    def write(self, text: str) -> int:
        """Write text unless the stream has failed."""
        self._try(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream unless it has failed."""
        self._try(lambda: self.stream.flush())

    def _try(self, action: Callable[[], Any]) -> None:
        if self.failure is not None:
            return
        try:
            action()
        except (OSError, ValueError) as error:
            self.failure = error
            # The rest of the buffer goes to nowhere: it would fail again when the interpreter ends.
            with suppress(OSError, ValueError, AttributeError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)


@contextmanager
def guarded() -> Iterator[Stream]:
    """Replace stdout and stderr by streams that never raise inside the context; yields the new stdout."""
    # Open what a shell closed (`>&-`), else the next file that is opened would stand in for a standard stream.
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    out, err = Stream(before[0]), Stream(before[1])
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


def complain(of: object, written: Callable[[str], str] = str, whole: str = "") -> None:
    """Print an error and its notes on stderr, each line through `written`; the command `whole` ends the first line."""
    notes = (line.strip() for note in getattr(of, "__notes__", ()) for line in note.splitlines())
    first, apart = f"asyncsim: {written(str(of))}", "\n    " + re.sub(r" (?=--|'\w)", " \\\\\n      ", whole)
    first += f" {whole}" if len(first + whole) < width(to=sys.stderr) else apart
    show(["\n  ".join([first.rstrip(), *map(written, notes)])], to=sys.stderr)


def width(piped: int = sys.maxsize, to: Any = None) -> int:
    """Width in columns of the terminal, or of COLUMNS; else `piped`, since lines of a pipe are not wrapped."""
    return shutil.get_terminal_size().columns if (to or sys.stdout).isatty() or "COLUMNS" in os.environ else piped


def show(lines: Iterable[str], hang: int = 4, piped: int = sys.maxsize, to: Any = None, colored: bool = False) -> None:
    """Print lines on `to` (else stdout), wrapped to its width; no word is broken, so that it can be copied."""
    columns, colored = width(piped, to), colored and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for line in "\n".join(lines).split("\n"):
        hung = " " * max(len(line) - len(line.lstrip()) + 2, hang)
        whole = textwrap.TextWrapper(columns, "", hung, break_long_words=False, break_on_hyphens=False)
        text = whole.fill(line) if len(line) > columns else line
        for pattern, color in COLORS.items() if (colored := colored and line != "") else ():
            text = re.sub(pattern, f"\x1b[{color}m\\g<0>\x1b[0m", text)
        print(text, file=to, flush=to is not None)


def load() -> None:
    """On a terminal, import the libraries for training, with a message that this takes a second or two."""
    if sys.stderr is None or not sys.stderr.isatty() or "torch" in sys.modules:
        return
    print("loading torch and numba ...", end="", file=sys.stderr, flush=True)
    for name in ("torch", "numba"):
        importlib.import_module(name)
    # Back to the start of the line, which is emptied.
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@functools.cache
def _compiling() -> None:
    complain(LINE)  # once, however many listen


@contextmanager
def announced() -> Iterator[None]:
    """Context that prints one line on stderr if the event kernel is compiled inside; nothing if it is cached."""
    # numba reports the start of a compilation; loading from disk is no such event.
    from numba.core import event

    class CompileListener(event.Listener):
        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__ == KERNEL:
                _compiling()

        def on_end(self, event: Any) -> None:
            """Do nothing: the results that follow show the end."""

    with event.install_listener("numba:compile", CompileListener()):
        yield


class Files:
    """Output files of a command, written one by one; a failure prints a line on stderr and affects no other.

    `typed` puts the words of Python in a text into those of the command line.
    """

    def __init__(self, paths: Mapping[str, Path | None], typed: Callable[[str], str] = str) -> None:
        self.paths, self.typed = paths, typed
        self.lost: list[str] = []
        self.written: list[str] = []

    def write(self, name: str, write: Callable[[Path], Any], path: Path | None = None) -> bool:
        """Write one output file with `write(path)` if it is requested; return whether it was written."""
        path = path or self.paths.get(name)
        if path is None:
            return False
        try:
            write(path)
        except Exception as error:
            reason = " ".join(str(error).split())[:200] or "no reason given"
            advice = f"written ({type(error).__name__}: {reason})", "try another path"
            advice = (error.bound, error.remedy) if isinstance(error, checks.InputError) else advice
            self.lost.append(name)
            complain(str(checks.InputError(f"--{name}", str(path), *advice)))
            return False
        self.written.append(name)
        return True

    def json(self, value: Any) -> None:
        """Write a result as JSON, if such a file is requested."""
        self.text("json", lambda: json.dumps(records.plain(value), indent=2) + "\n")

    def text(self, name: str, text: Callable[[], str]) -> None:
        """Write a text to a file; the text is generated only if the file is requested."""
        self.write(name, lambda path: files.write_atomically(path, lambda file: file.write(text().encode())))

    def draw(self, value: Any) -> None:
        """Draw the figure of a value, as `sim.plot` does, if such a file is requested."""

        def write(path: Path) -> None:
            from asyncsim.plotting import plot

            plot(value, path)

        self.write("plot", write)

    def answer(self, value: Any, status: int = 0) -> int:
        """Write an answer's JSON object, table and figure, print the answer, and return the exit status."""
        self.json(value.row())
        self.text("csv", lambda: str(value.table().to_csv(index=False)))
        self.draw(value)
        context = contextvars.copy_context()
        context.run(pages.COLUMNS.set, min(width(0), WIDEST))
        show([self.typed(context.run(str, value))], colored=True)
        self.say("plot: {}", "plot")
        return self.status(status)

    def say(self, line: str, name: str) -> None:
        """Print the path of an output file if it was written."""
        if name in self.written:
            print(line.format(self.paths[name]))

    def status(self, otherwise: int) -> int:
        """Exit status: `LOST` if an output file is missing, else the given status."""
        return LOST if self.lost else otherwise
