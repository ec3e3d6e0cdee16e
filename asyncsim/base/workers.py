"""Worker processes that call functions by name on all cores, one process for each waiting thread.

A worker is a subprocess that reads calls and writes results. If a worker dies, only its own call fails, and the next
call starts another worker. Workers end within a second after the process that started them, however that ends.
"""

import ctypes
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, cast

from asyncsim.base import checks, outside

MOST = 4096
"""Maximum number of workers."""
PATIENCE = 2.0
"""Seconds that a process has to end after it closed its pipe."""
NUMBER = "ASYNCSIM_WORKER"
"""Environment variable with the number of a worker."""
WATCH = 0.3
"""Interval in seconds at which a worker checks that its owner exists."""
DEATH_SIGNAL = 1
"""Code of Linux's `prctl` request for a signal at the death of the parent."""


class Died(checks.RunError):
    """Raised if a worker process ended during a call, because it was killed or ran out of memory."""


def cores() -> int:
    """Number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number() -> int | None:
    """Number of this worker process, from 0; None in a process that is not a worker."""
    text = os.environ.get(NUMBER, "")
    return int(text) if text.isdigit() else None


_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
"""Whether the code that runs now is one of many calls, which already use the cores."""


@contextmanager
def alone() -> Iterator[None]:
    """Context in which calls start no worker processes unless asked to."""
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def nested() -> bool:
    """Whether other calls already use the cores: this is a worker, a thread or a subprocess, or one of many calls."""
    beside = threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None
    return beside or number() is not None or _ALONE.get()


def count_of(workers: int | None, calls: int) -> int:
    """Number of worker processes for `calls` calls: as requested, else one per core; 1 starts no process.

    >>> count_of(4, 10), count_of(4, 2), count_of(None, 1)
    (4, 2, 1)
    """
    if workers is not None:
        checks.integer("workers", workers, 1, "give at least one worker", MOST)
    return max(1, min(workers or cores(), calls))


class Crew:
    """A pool of `count` worker processes, started on demand."""

    def __init__(self, count: int) -> None:
        # As many calls wait as there are workers, so that none is idle while its next one is prepared.
        self.places = 2 * count
        self._threads = ThreadPoolExecutor(count)
        self._mine = threading.local()
        self._all: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def submit(self, call: str, *arguments: Any) -> Future[Any]:
        """A future of a call's result, which raises `Died` if the worker process dies."""
        return self._threads.submit(self._ask, pickle.dumps((call, arguments)))

    def close(self) -> None:
        """Kill all worker processes at once; results of running calls are lost."""
        with self._lock:
            self._closed = True
            for process in self._all:
                process.kill()
        # Threads that read find the end of the file, and only then may it be closed.
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                # What was not read any more is no fault.
                with suppress(OSError):
                    cast(Any, pipe).close()

    def _ask(self, call: bytes) -> Any:
        process, fresh = getattr(self._mine, "process", None), False
        if process is None or process.poll() is not None:
            process, fresh = self._start(), True
            self._mine.process = process
        assert process.stdin is not None and process.stdout is not None
        try:
            if fresh:
                pickle.dump(sys.path, process.stdin)
            process.stdin.write(call)
            process.stdin.flush()
            well, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            # A process whose pipe is closed may take a moment to end by itself.
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            process.kill()
            code = process.wait()
            reason = f"by signal {-code}" if code < 0 else f"with status {code}"
            raise Died(f"a worker process ended {reason} (killed, or out of memory); use fewer workers") from None
        if not well:
            raise result
        return result

    def _start(self) -> subprocess.Popen[bytes]:
        # Fewer threads of linear algebra would change last bits.
        # -P: a file of the working directory must not stand in for a module of Python.
        paths = os.pathsep.join(each or os.getcwd() for each in sys.path)
        # A process that starts while all are ended would be ended by nobody.
        with self._lock:
            if self._closed:
                raise Died("the work is over")
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "asyncsim.base.workers", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, NUMBER: str(len(self._all)), "PYTHONPATH": paths},
            )
            self._all.append(process)
        return process


def each(call: str, arguments: Iterable[tuple[Any, ...]], workers: int | Crew) -> Iterator[tuple[int, Any]]:
    """Index and result of every call, in order of completion; a single worker runs them in this process."""
    ready = Here() if workers == 1 else workers
    with Crew(ready) if isinstance(ready, int) else nullcontext(ready) as crew:
        left = enumerate(arguments)
        flying: dict[Future[Any], int] = {}
        while True:
            while len(flying) < crew.places and (nearest := next(left, None)) is not None:
                flying[crew.submit(call, *nearest[1])] = nearest[0]
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                yield flying.pop(future), future.result()


class Here:
    """A stand-in for `Crew` that runs calls in this process, one after another."""

    places = 1

    def submit(self, call: str, *arguments: Any) -> Future[Any]:
        """A future that already has the result of the call."""
        future = Future[Any]()
        with alone():
            future.set_result(called(call, *arguments))
        return future

    def close(self) -> None:
        """Do nothing: there is no process to end."""


def named(call: str) -> Any:
    """Function with the name module:name."""
    module, _, name = call.partition(":")
    return getattr(importlib.import_module(module), name)


def called(call: str, *arguments: Any) -> Any:
    """Call the function with the name module:name, and return its result."""
    return named(call)(*arguments)


def serve(owner: int) -> None:
    """Run as a worker: read calls from the input and write results to the output, until input or owner ends."""
    # A terminal sends these to all its processes, and its owner decides what they mean.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # End this process soon after its owner has ended, whatever it computes then.
    if sys.platform == "linux":
        # Compiled code may hold Python's lock for longer than a second: there the kernel has to end it.
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a call prints is no result
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.path[:] = pickle.load(calls)
    while True:
        try:
            call, arguments = pickle.load(calls)
        except EOFError:
            return
        try:
            results.write(_result(call, arguments))
            results.flush()
        except BrokenPipeError:
            os._exit(1)  # whoever asked was killed; a traceback here would land in the user's terminal


def _result(call: str, arguments: tuple[Any, ...]) -> bytes:
    """Run a call, and pickle whether it succeeded and its result or exception."""
    try:
        return pickle.dumps((True, named(call)(*arguments)))
    except Exception as raised:
        error = outside.part_error(raised)
        try:
            data = pickle.dumps((False, error))
            pickle.loads(data)  # some exceptions can be written and not read
            return data
        except Exception:
            return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


if __name__ == "__main__":
    serve(int(sys.argv[1]))
