"""An actor: a process that generates groups under the weights on the board and stamps what it sees.

The board has the weights of the newest version in memory that processes share, read whole or not at all. Actors are
processes started here. They are handed the board and a pipe, and gone at the end, however it comes.
"""

import heapq
import itertools
import math
import multiprocessing
import signal
import sys
import time
import traceback
import types
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.base import workers
from asyncsim.sampling.rollouts import Sampler, Trajectories, rolled_out
from asyncsim.step import versions
from asyncsim.step.versions import Weights

TURN, VERSION, SUM, HEAD = 0, 1, 2, 3
"""Words in front of the weights: writes begun and ended, version, checksum of version and weights."""
PATIENCE = 5.0
"""Seconds that a write may take."""


class Sheet(NamedTuple):
    """Name, shape and type of one weight tensor in the shared memory of a `Board`."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Size of the weight tensor in bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Board:
    """Shared memory with the published weights: one process writes, all read, and a killed process blocks nobody.

    The turn is odd while the board is written. A reader takes its copy if the turn was even and the checksum fits.
    Memory without a name ends with the last process that holds it, however that ends.
    """

    memory: Any
    sheets: tuple[Sheet, ...]

    @classmethod
    def of(cls, room: Callable[[int], Any], weights: Weights) -> "Board":
        """Create shared memory for weights of these names and shapes; `room` returns a given number of zeroed bytes."""
        sheets = tuple(Sheet(name, tuple(tensor.shape), str(tensor.numpy().dtype)) for name, tensor in weights.items())
        board = cls(room(8 * HEAD + sum(sheet.size for sheet in sheets)), sheets)
        board.write(0, weights)
        return board

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        return np.frombuffer(self.memory, np.int64, HEAD), np.frombuffer(self.memory, np.uint8, offset=8 * HEAD)

    def version(self) -> int:
        """Version of the published weights, or the version that is being written."""
        return int(self._parts()[0][VERSION])

    def write(self, version: int, weights: Weights) -> None:
        """Publish a version of the weights to all actor processes."""
        head, body = self._parts()
        data = b"".join(weights[sheet.name].numpy().tobytes() for sheet in self.sheets)
        head[TURN] += 1
        body[:] = np.frombuffer(data, np.uint8)
        head[VERSION], head[SUM] = version, zlib.crc32(data, version)
        head[TURN] += 1

    def read(self) -> tuple[int, Weights]:
        """Newest complete version and a copy of its weights; raises `EOFError` if a write never finishes."""
        head, body = self._parts()
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last:
            turn, version, total = (int(word) for word in head)
            data = body.tobytes()
            if turn % 2 == 0 and turn == head[TURN] and total == zlib.crc32(data, version):
                weights, at = {}, 0
                for sheet in self.sheets:
                    part = np.frombuffer(data, sheet.dtype, math.prod(sheet.shape), at)
                    weights[sheet.name] = torch.from_numpy(part.reshape(sheet.shape).copy())
                    at += sheet.size
                return version, weights
        raise EOFError("the writer ended in the middle of a write")


MOVING = ("keep", "reprefill")
"""Modes in which a response goes on under the weights of an install."""
READY = "ready"
"""First message of an actor that can take orders."""
TRIAL = 0
"""Group that is generated, and forgotten, before the first order: code is loaded by then."""


class Order(NamedTuple):
    """Order to an actor process for one group: its number, slot and, with simulated time, seconds per sample."""

    group: int
    place: int
    seconds: tuple[float, ...] | None


class Done(NamedTuple):
    """A finished group: time stamps, token versions int32 `[N, T]`, and its data as arrays `[1, 1, N, ...]`."""

    group: int
    place: int
    t_start: float
    t_end: np.ndarray
    version: np.ndarray
    columns: dict[str, Any]


@dataclass
class _Growing:
    """A group in generation; `version` of the tokens so far, and `left`, the number of unfinished samples."""

    order: Order
    t_start: float
    version: np.ndarray
    t_end: np.ndarray
    left: int


@dataclass
class Actor:
    """Generates groups in one actor process, each group on its own clock.

    A response of T tokens reaches token t at the fraction t / T of its seconds; there it takes the newest weights where
    the mode lets it. What it says is computed when its group ends, in one call, from the weights it held at each token.
    """

    board: Board
    sampler: Sampler
    moving: bool
    zero: float
    store: versions.Store = field(init=False)
    growing: dict[int, _Growing] = field(default_factory=dict)
    due: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    serial: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.store = versions.Store(self.sampler.realization)

    def now(self) -> float:
        """Seconds since the live run began."""
        return time.monotonic() - self.zero

    def serve(self, pipe: Any) -> None:
        """Take orders for groups until the orders end or the sender has disconnected."""
        while True:
            if pipe.poll(max(0.0, self.due[0][0] - self.now()) if self.due else None):
                order = pipe.recv()
                if order is None:
                    return
                self.begin(order)
            while self.due and self.due[0][0] <= self.now():
                done = self.advance(*heapq.heappop(self.due)[2:])
                if done is not None:
                    pipe.send(done)

    def begin(self, order: Order) -> None:
        """Start generating a group with the weights that are published now."""
        start, newest = self.now(), self._newest()
        shape = (self.sampler.samples, self.sampler.task.horizon)
        version = np.full(shape, newest, dtype=np.int32)
        self.growing[order.group] = _Growing(order, start, version, np.full(shape[0], start), shape[0])
        for sample in range(shape[0]):
            self._wait(order, sample, 1 if self.moving and order.seconds is not None else shape[1])

    def advance(self, group: int, sample: int, token: int) -> Done | None:
        """Continue a response at a token under the newest weights, or end it; return its group if that is finished."""
        growing, horizon = self.growing[group], self.sampler.task.horizon
        if token < horizon:
            growing.version[sample, token:] = self._newest()
            self._wait(growing.order, sample, token + 1)
            return None
        growing.t_end[sample], growing.left = self.now(), growing.left - 1
        if growing.left:
            return None
        del self.growing[group]
        sampler, version, size = self.sampler, growing.version[None, None], self.sampler.samples
        one = version[..., :1] if (version == version[..., :1]).all() else version
        ids = (group * (size + sampler.redundant) + np.arange(size)).reshape(1, 1, -1)
        trajectories, reward = rolled_out(sampler, self.store.view(one), sampler.draws(ids), sampler.prompts(ids))
        last = growing.t_end == growing.t_end.max()
        growing.t_end[last] = self.now()
        stamps = (growing.t_start, growing.t_end, growing.version)
        return Done(group, growing.order.place, *stamps, unpacked(trajectories, reward))

    def _wait(self, order: Order, sample: int, token: int) -> None:
        seconds = 0.0 if order.seconds is None else order.seconds[sample]
        at = self.growing[order.group].t_start + seconds * token / self.sampler.task.horizon
        heapq.heappush(self.due, (at, next(self.serial), order.group, sample, token))

    def _newest(self) -> int:
        """Newest version on the board; older weights are kept while a group here needs them."""
        if self.board.version() not in self.store.kept:
            version, weights = self.board.read()
            if version not in self.store.kept:
                needed = set[int]().union(*(np.unique(each.version).tolist() for each in self.growing.values()))
                self.store.retire([old for old in self.store.kept if old not in needed])
                self.store.put(version, self.sampler.installed(version, weights))
            return version
        return max(self.store.kept)


def unpacked(rows: Trajectories, reward: torch.Tensor) -> dict[str, Any]:
    """Convert trajectories and rewards to named arrays, with everything that a learner needs."""
    columns: dict[str, Any] = {"state": rows.state, "action": rows.action, "mask": rows.mask, "reward": reward}
    columns |= {"inserted": rows.inserted, "broken": rows.broken}
    columns |= {f"output {name}": value for name, value in rows.outputs.items()}
    columns |= {f"token {name}": value for name, value in rows.per_token.items()}
    return {name: value.numpy() for name, value in columns.items() if value is not None}


def joined(groups: list[dict[str, Any]]) -> tuple[Trajectories, torch.Tensor]:
    """Concatenate the trajectories of groups, `[1, G, N, ...]`, and their rewards."""

    def join(name: str) -> torch.Tensor | None:
        return torch.from_numpy(np.concatenate([each[name] for each in groups], axis=1)) if name in groups[0] else None

    def named(kind: str) -> dict[str, Any]:
        return {name.removeprefix(kind): join(name) for name in groups[0] if name.startswith(kind)}

    state, action, mask, reward = (join(name) for name in ("state", "action", "mask", "reward"))
    assert state is not None and mask is not None and reward is not None
    rows = Trajectories(state, action, mask, named("output "), per_token=named("token "), inserted=join("inserted"))
    if "broken" in groups[0]:
        rows.broken = torch.from_numpy(np.any([each["broken"] for each in groups], axis=0))
    return rows, reward


def main(pipe: Any, board: Board, sampler: Sampler, moving: bool, zero: float) -> None:
    """Entry point of an actor process, which ignores Ctrl-C and ends with its parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with torch.no_grad(), versions.threads(1):
            trial = Actor(board, sampler, False, zero)
            trial.begin(Order(TRIAL, 0, None))
            while trial.due:
                trial.advance(*heapq.heappop(trial.due)[2:])
            pipe.send(READY)
            Actor(board, sampler, moving, zero).serve(pipe)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error} ({traceback.extract_tb(error.__traceback__)[-1].name})")


ENDING = 2.0
"""Seconds that an actor has to end by itself."""
Crew = tuple[Board, list[Any], list[Any]]
"""The board, processes and pipes."""


@contextmanager
def started(count: int, weights: Weights, sampler: Any, zero: float, moving: bool) -> Iterator[Crew]:
    """Context with the shared weights, actor processes and their pipes, which are all closed at its end."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["asyncsim.live.actor"])
    board = Board.of(partial(context.RawArray, "b"), weights)
    processes, pipes = [], []
    try:
        for number in range(count):
            mine, theirs = context.Pipe()
            pipes.append(mine)
            given = (theirs, board, sampler, moving, zero)
            process = context.Process(target=main, args=given, name=f"actor {number}", daemon=True)
            with _plain_main():
                process.start()
            theirs.close()
            processes.append(process)
        yield board, processes, pipes
    finally:
        end(processes, pipes, closing=True)


@contextmanager
def _plain_main() -> Iterator[None]:
    """Context in which children of a worker of this package need not import a main script."""
    main = sys.modules["__main__"]
    if workers.number() is not None:
        sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def end(processes: list[Any], pipes: list[Any], closing: bool = False) -> None:
    """Tell actor processes that no more orders come, and kill the processes that do not end.

    `closing`: no thread reads the pipes. A new run's pipe may get the number of a closed one, and lose what it says.
    """
    for pipe in pipes:
        with suppress(OSError):
            pipe.send(None)
    last = time.monotonic() + ENDING
    for process in processes:
        process.join(max(0.0, last - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    for pipe in pipes if closing else ():
        pipe.close()
