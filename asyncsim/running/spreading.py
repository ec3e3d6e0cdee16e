"""Training in worker processes: when to start workers, how large their blocks are, and what is sent to them."""

import functools
import importlib
import io
import math
import operator
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, files, memory, workers
from asyncsim.running.blocks import Block, computing
from asyncsim.running.checkpoint import say
from asyncsim.running.sources import Cut, Shared
from asyncsim.running.spec import ARRAYS, Spec
from asyncsim.running.updating import Part, Standing

LOOK = 1.0
"""Seconds of training after which the remaining time can be estimated."""
WORTH = 15.0
"""Remaining seconds from which workers are started by default: their start takes 1 to 3 s."""
LEAST = 1 << 15
"""Minimum tokens per batch of a block that is split by default: below it, Python's overhead dominates."""
BYTES = 512 << 20
"""Memory of a worker in bytes before its first block."""


class Site:
    """This process and its worker processes, which stay alive between runs until the site is closed."""

    hears: Callable[[float], None] | None = None

    def __init__(self, asked: int | None) -> None:
        if asked is not None:
            checks.integer("workers", asked, 1, "give at least one worker, or leave it out", workers.MOST)
        self.asked = asked
        self.count = asked or (1 if workers.nested() else workers.cores())
        self.began = time.monotonic()
        self.crew: workers.Crew | None = None

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def ready(self) -> bool:
        """Whether worker processes train from the first block on."""
        return self.count > 1 and (self.asked is not None or self.crew is not None)

    def refuse(self, reason: str) -> None:
        """Train in this process alone from now on; print the reason if the user requested more processes."""
        self.explain(reason)
        self.count = 1

    def explain(self, reason: str) -> None:
        """Print why only one process trains, if the user requested more processes."""
        if self.asked is not None and self.count > 1:
            say(f"one process: {reason}")

    def fit(self, spec: Spec) -> None:
        """Limit the number of worker processes by memory, unless the user set the number."""
        if self.asked is None:
            each = BYTES + 8 * ARRAYS * spec.together * tokens_of(spec)
            self.count = min(self.count, 1 + checks.available()[0] // each)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function in a worker process; raises `Died` if the worker dies."""
        if self.crew is None:
            raise workers.Died("the work is over")
        return self.crew.submit(name, *arguments).result()

    def close(self) -> None:
        """Kill all worker processes at once."""
        if self.crew is not None:
            self.crew.close()
            self.crew = None


class Watch:
    """Detects, once per run, that the remaining work takes much longer than starting worker processes."""

    def __init__(self, site: Site) -> None:
        self.site, self.over = site, site.count == 1 or site.ready
        self.begun = 0.0
        self.before: int | None = None

    def pays(self, done: int, left: int) -> bool:
        """Whether to start workers now, after `done` and before `left` more updates (times replicates)."""
        now = time.monotonic()
        if self.before is None or done <= self.before:
            # Whatever has to be compiled is compiled in a block's first batch.
            self.begun, self.before = now, done
        if now - self.begun < LOOK:
            return False
        self.over = True
        seconds = left * (now - self.begun) / (done - self.before)
        # Who has computed for long already will go on: a comparison has many short runs.
        return seconds >= (WORTH if now - self.site.began < WORTH else 2 * LOOK)


def tokens_of(spec: Spec) -> int:
    """Maximum number of tokens per batch of one replicate."""
    return spec.groups * spec.samples * spec.task.horizon


def blocks(spec: Spec, start: int = 0, shares: int = 1, least: int = 1) -> list[range]:
    """Blocks of the replicates from `start` on: of the spec's size, or smaller in a multiple of `shares`.

    Smaller blocks have at least `least` tokens per batch, and are made only if bits do not depend on blocks.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.grpo(), sim.chain())
    >>> blocks(spec), blocks(spec, shares=3)
    ([range(0, 64)], [range(0, 22), range(22, 44), range(44, 64)])
    """
    left, size = spec.replicates - start, spec.together
    if shares > 1 and left > 0 and getattr(spec.trained_policy, "apart", False):
        whole = math.ceil(left / size)
        most = max(whole, left * tokens_of(spec) // least)
        size = math.ceil(left / min(shares * math.ceil(whole / shares), most, left))
    return [range(k, min(k + size, spec.replicates)) for k in range(start, spec.replicates, size)]


_REASONS = (pickle.PicklingError, AttributeError, ImportError, RecursionError, TypeError, ValueError)
"""Exceptions for an object that cannot be pickled here or unpickled in the worker."""


class Unsendable(Exception):
    """Raised for a run with a part that cannot be sent to another process."""


def packed(shared: Shared) -> bytes:
    """Pickle the values that a run's blocks share; raises `Unsendable` with a reason if that is impossible."""
    try:
        return _bytes(shared)
    except _REASONS as error:
        reason = str(error).splitlines()[0]
    try:
        return _bytes((shared.spec.to_dict(), *shared[1:]))
    except _REASONS:
        raise Unsendable(reason) from None


def unpacked(data: bytes) -> Shared:
    """Restore the values that `packed` pickled; raises `Unsendable` if this process cannot."""
    try:
        spec, *others = pickle.loads(data)
        return Shared(spec if isinstance(spec, Spec) else Spec.from_dict(spec, trust=None), *others)
    except _REASONS as error:
        raise Unsendable(str(error).splitlines()[0]) from None


def _bytes(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Rejects objects that only this process can find, and resolves functions inside a metric of the same name."""

    def reducer_override(self, part: Any) -> Any:
        """Pickle a class or function by name; leave everything else to pickle."""
        if not isinstance(part, (type, FunctionType)):
            return NotImplemented
        module, name = part.__module__, part.__qualname__
        if not _findable(module):
            raise pickle.PicklingError(f"{name} stands in {module}, which other processes cannot import")
        there = getattr(sys.modules.get(module), name, None)
        if there is not part and getattr(there, "measure", None) is part:
            return _measure_of, (module, name)
        return NotImplemented


def _measure_of(module: str, name: str) -> Any:
    return operator.attrgetter(f"{name}.measure")(importlib.import_module(module))


@functools.cache
def _findable(module: str) -> bool:
    """Whether a new process can import the module: not the main script, nor a file loaded by its path."""
    top = module.partition(".")[0]
    return top != "__main__" and any(finder.find_spec(top, None) is not None for finder in sys.meta_path)


POLL = 0.1
"""Seconds between checks of the workers' progress."""
TRIES = 2
"""Maximum number of times that a block is started if its workers die."""


class Piece(NamedTuple):
    """One block of replicates of one of several runs: run, first replicate, and end."""

    job: int
    start: int
    stop: int


class Table:
    """Blocks of replicates not yet started, and results of the others by run and first replicate."""

    def __init__(self, received: list[int]) -> None:
        self.left: deque[Piece] = deque()
        self.parts: dict[tuple[int, int], Part] = {}
        self.errors: list[Exception] = []
        self.received, self.over = received, False
        self._lock = threading.Lock()

    @property
    def stopped(self) -> bool:
        """Whether all training stops after the current batch, because of a signal or an error."""
        return self.over or bool(self.received or self.errors)

    def take(self) -> Piece | None:
        """The next block to train, or None if no block is left or training stops."""
        with self._lock:
            return self.left.popleft() if self.left and not self.stopped else None

    def of(self, job: int) -> list[Part]:
        """Results of a run's blocks in order, up to the first block that was not started."""
        parts: list[Part] = []
        start = 0
        while (part := self.parts.get((job, start))) is not None:
            parts.append(part)
            start += len(part.parameters)
        return parts


def train(folder: str, job: int, cell: int, cut: Cut) -> Part | None:
    """Train a block in a worker process, with progress in a cell of the shared board, until that requests a stop."""
    shared = _told(f"{folder}/{job}")
    board = np.memmap(f"{folder}/board", np.int64, "r+")
    passes = shared.spec.passes

    def after(at: Standing) -> bool:
        board[cell] = at.batch * passes
        return bool(board[-1])

    if board[-1]:
        return None
    memory.keep()
    with computing(shared.spec):
        block = Block(shared, cut)
        return block.train(block.begin(), after)


@functools.lru_cache(maxsize=8)
def _told(path: str) -> Shared:
    return unpacked(Path(path).read_bytes())


class Helpers:
    """Threads that take blocks from the table, each with a worker process that trains them.

    `board`: a file shared by all, with the number of updates of each block at the index of its first replicate; its
    last number requests a stop. Raises `Unsendable` if a part of a run cannot be sent to workers.
    """

    def __init__(self, site: Site, table: Table, runs: Sequence[Shared], cut: Callable[[Piece], Cut]) -> None:
        self.site, self.table, self.cut = site, table, cut
        told = [packed(shared) for shared in runs]
        self.folder = files.Temporary()
        for number, data in enumerate(told):
            (Path(self.folder.path) / str(number)).write_bytes(data)
        self.first = np.cumsum([0, *(shared.spec.replicates for shared in runs)])
        self.board = np.memmap(f"{self.folder.path}/board", np.int64, "w+", shape=(int(self.first[-1]) + 1,))
        self.threads: list[threading.Thread] = []

    def cell(self, piece: Piece) -> int:
        """Index of a block's progress on the shared board."""
        return int(self.first[piece.job]) + piece.start

    def share(self, pieces: Sequence[Piece], updates: int) -> float:
        """Fraction of all blocks' updates (`updates` each) that is completed."""
        made = sum(int(self.board[self.cell(piece)]) * (piece.stop - piece.start) for piece in pieces)
        return made / (updates * int(self.first[-1]))

    def start(self, count: int) -> None:
        """Start `count` threads with worker processes."""
        # Pages that processes give back and take again at the same time slow each other down.
        memory.keep()
        self.site.crew = self.site.crew or workers.Crew(self.site.count - 1)
        self.threads = [threading.Thread(target=self._help, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def going(self) -> bool:
        """Whether some threads still train, after a short wait for one of them."""
        alive = [thread for thread in self.threads if thread.is_alive()]
        if alive:
            alive[0].join(POLL)
        return bool(alive)

    def leave(self) -> None:
        """Wait for all threads, whose worker processes have stopped or were killed."""
        for thread in self.threads:
            thread.join()
        self.folder.remove()

    def _help(self) -> None:
        while (piece := self.table.take()) is not None:
            try:
                part = self._ask(piece)
            except Unsendable as reason:
                # This process does it.
                self.table.left.appendleft(piece)
                self.site.refuse(str(reason))
                return
            except Exception as error:
                self.table.errors.append(error)
                return
            if part is not None:
                self.table.parts[piece.job, piece.start] = part

    def _ask(self, piece: Piece) -> Part | None:
        """Train a block in a worker; if the worker dies, start the block again in another."""
        place = self.folder.path, piece.job, self.cell(piece)
        for more in reversed(range(TRIES)):
            try:
                return self.site.call("asyncsim.running.spreading:train", *place, self.cut(piece))
            except workers.Died as error:
                if self.table.received:
                    return None  # what ends this process may have ended the worker as well
                if self.table.stopped or not more:
                    raise
                say(f"{error}; its block is trained again")
                self.board[self.cell(piece)] = 0
        return None
