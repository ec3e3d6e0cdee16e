"""Worker processes: functions called by name on all cores, one process for each thread that waits for it.

A worker is a plain subprocess that reads calls and writes results. One that dies fails its own call alone, and the next
call starts another. It ends within a second of the process that started it, however that ends.
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

from asyncsim.base import checks

MOST = 4096
"""Workers at most."""
PATIENCE = 2.0
"""Seconds that a process which closed its pipe has to end."""
NUMBER = "ASYNCSIM_WORKER"
"""Environment variable with a worker's number."""
WATCH = 0.3
"""Seconds after which a worker looks again whether its owner is still there."""
DEATH_SIGNAL = 1
"""Number of Linux's request (`prctl`) for a signal at the death of the parent."""


class Died(checks.RunError):
    """A worker ended in the middle of a call: it was killed, or ran out of memory."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number() -> int | None:
    """The number of this worker, from 0; None in a process that is none."""
    text = os.environ.get(NUMBER, "")
    return int(text) if text.isdigit() else None


_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
"""Whether what runs now is one of many calls, which have the cores already."""


@contextmanager
def alone() -> Iterator[None]:
    """What is called inside starts no workers unasked."""
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def nested() -> bool:
    """Whether others have the cores already: this is a worker, a thread or process of the caller's own, or one of many.

    >>> with alone():
    ...     nested()
    True
    """
    beside = threading.current_thread() is not threading.main_thread() or multiprocessing.parent_process() is not None
    return beside or number() is not None or _ALONE.get()


def count_of(workers: int | None, calls: int) -> int:
    """How many workers so many calls are spread over: as asked, else one a core; 1 means none beside this process.

    >>> count_of(4, 10), count_of(4, 2), count_of(None, 1)
    (4, 2, 1)
    """
    if workers is not None:
        checks.integer("workers", workers, 1, "give at least one worker", MOST)
    return max(1, min(workers or cores(), calls))


def imported_ray() -> Any:
    """Ray, where it is installed; else raises `InputError` for the backend that needs it."""
    try:
        import ray
    except ImportError:
        bound = "used where ray is installed"
        raise checks.InputError("backend", "ray", bound, checks.extra("cluster", "ray")) from None
    return ray


class Crew:
    """So many worker processes, started when they are needed.

    Calls name a function as module:name; arguments and results are pickled. What a function raises is raised here.
    """

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
        """A future of the function's result; it raises `Died` where its worker did."""
        return self._threads.submit(self._ask, pickle.dumps((call, arguments)))

    def close(self) -> None:
        """End all workers at once; what is under way is lost."""
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
    """Number and result of every call, in the order in which they end; with one worker they are made in this process.

    `workers`: how many, or a crew that its owner closes. What a call raises is raised here; the others are given up.
    """
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
    """Calls are made in this process, one after another."""

    places = 1

    def submit(self, call: str, *arguments: Any) -> Future[Any]:
        """A future that has the function's result already."""
        future = Future[Any]()
        with alone():
            future.set_result(called(call, *arguments))
        return future

    def close(self) -> None:
        """Nothing to end."""


def named(call: str) -> Any:
    """The function that module:name names.

    >>> named("math:sqrt")(4.0)
    2.0
    """
    module, _, name = call.partition(":")
    return getattr(importlib.import_module(module), name)


def called(call: str, *arguments: Any) -> Any:
    """What the function that module:name names returns."""
    return named(call)(*arguments)


def serve(owner: int) -> None:
    """A worker's life: calls from its input, results to its output, until the input or its owner ends."""
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
    """Whether a call went well, and what it gave or raised, pickled."""
    try:
        return pickle.dumps((True, named(call)(*arguments)))
    except Exception as error:
        try:
            data = pickle.dumps((False, error))
            pickle.loads(data)  # some exceptions can be written and not read
            return data
        except Exception:
            return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))


if __name__ == "__main__":
    serve(int(sys.argv[1]))
