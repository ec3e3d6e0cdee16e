"""The actors of a live run: they are started, handed the board, and gone at the end, however it comes.

They are processes started here, or tasks of Ray on this machine: the same code, board and pipes.
"""

import multiprocessing
import os
import socket
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from asyncsim.base import checks, files, workers
from asyncsim.live import actor
from asyncsim.live.board import Board, Mapped
from asyncsim.step.versions import Weights

PATIENCE = 2.0
"""Seconds that an actor has to end by itself."""
RAY = 120.0
"""Seconds that Ray has to start a task."""


@contextmanager
def started(
    count: int, weights: Weights, sampler: Any, zero: float, moving: bool
) -> Iterator[tuple[Board, list[Any], list[Any]]]:
    """Board, processes and pipes; all are gone behind it."""
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
            process = context.Process(target=actor.main, args=given, name=f"actor {number}", daemon=True)
            with _plain_main():
                process.start()
            theirs.close()
            processes.append(process)
        yield board, processes, pipes
    finally:
        end(processes, pipes)
        close(pipes)


@contextmanager
def _plain_main() -> Iterator[None]:
    """A worker of this package has no script that its children would have to import."""
    main = sys.modules["__main__"]
    if workers.number() is not None:
        sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def end(processes: list[Any], pipes: list[Any]) -> None:
    """Tell actors that there are no more orders; those that do not end are killed."""
    for pipe in pipes:
        with suppress(OSError):
            pipe.send(None)
    last = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, last - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def close(pipes: list[Any]) -> None:
    """Close pipes that no thread reads: a new run's pipe may get the number of a closed one, and lose what it says."""
    for pipe in pipes:
        pipe.close()


@dataclass
class Task:
    """What a desk asks of a process, of a task of Ray."""

    name: str
    ray: Any
    reference: Any
    pid: int = 0
    exitcode: None = None

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end."""
        self.ray.wait([self.reference], timeout=seconds)

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self.ray.wait([self.reference], timeout=0)[0]

    def kill(self) -> None:
        """End it."""
        self.ray.cancel(self.reference, force=True)


@contextmanager
def started_by_ray(
    count: int, weights: Weights, sampler: Any, zero: float, moving: bool
) -> Iterator[tuple[Board, list[Any], list[Any]]]:
    """Board, tasks and pipes; all are gone behind it, and so is Ray where it was started here.

    Pipes are sockets in a folder that only this user may enter, so tasks have to run on this machine.
    """
    ray = workers.imported_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    mine = not ray.is_initialized()
    if mine:
        ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    folder = files.Temporary()
    tasks: list[Task] = []
    pipes: list[Any] = []
    try:
        room = Path(folder.path)
        board = Board.of(partial(Mapped.made, str(room / "board")), weights)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        serve = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=here)(_serve)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(address := str(room / "door"))
            door.listen(1)
            for number in range(count):
                task = Task(f"actor {number}", ray, serve.remote(address, board, sampler, moving, zero))
                tasks.append(task)
                # The pipe to a task that has come to the door and said who it is.
                door.settimeout(RAY)
                try:
                    visitor, _ = door.accept()
                except TimeoutError:
                    missing = f"Ray started no task within {RAY:g} s: give it a core for each of the actors"
                    raise checks.RunError(missing) from None
                visitor.setblocking(True)
                pipes.append(pipe := Connection(visitor.detach()))
                task.pid = pipe.recv()
        yield board, tasks, pipes
    finally:
        end(tasks, pipes)
        close(pipes)
        folder.remove()
        if mine:
            ray.shutdown()


def _serve(address: str, board: Board, sampler: Any, moving: bool, zero: float) -> None:
    """The task: knock, then live as an actor."""
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(address)
        pipe = Connection(visitor.detach())
    pipe.send(os.getpid())
    actor.main(pipe, board, sampler, moving, zero)
