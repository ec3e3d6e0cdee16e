"""Actors as tasks of Ray on this machine: the same code, board and pipes as those of processes started here."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from asyncsim.base import checks, files, workers
from asyncsim.live import actor
from asyncsim.live.board import Board, Mapped
from asyncsim.live.processes import close, end
from asyncsim.step.versions import Weights

PATIENCE = 120.0
"""Seconds that Ray has to start a task."""


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
def started(
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
        board = Board.of(_room(room / "board"), weights)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        serve = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=here)(_serve)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(address := str(room / "door"))
            door.listen(1)
            for number in range(count):
                task = Task(f"actor {number}", ray, serve.remote(address, board, sampler, moving, zero))
                tasks.append(task)
                pipes.append(_met(door, task))
        yield board, tasks, pipes
    finally:
        end(tasks, pipes)
        close(pipes)
        folder.remove()
        if mine:
            ray.shutdown()


def _room(path: Path) -> Callable[[int], Mapped]:
    """Memory in a file of zeros."""

    def made(size: int) -> Mapped:
        path.write_bytes(bytes(size))
        return Mapped(str(path))

    return made


def _met(door: socket.socket, task: Task) -> Connection:
    """The pipe to a task that has come to the door and said who it is."""
    door.settimeout(PATIENCE)
    try:
        visitor, _ = door.accept()
    except TimeoutError:
        missing = f"Ray started no task within {PATIENCE:g} s: give it a core for each of the actors"
        raise checks.RunError(missing) from None
    visitor.setblocking(True)
    pipe = Connection(visitor.detach())
    task.pid = pipe.recv()
    return pipe


def _serve(address: str, board: Board, sampler: Any, moving: bool, zero: float) -> None:
    """The task: knock, then live as an actor."""
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(address)
        pipe = Connection(visitor.detach())
    pipe.send(os.getpid())
    actor.main(pipe, board, sampler, moving, zero)
