"""The processes of a live run: they are started, handed the board, and gone at the end, however it comes."""

from __future__ import annotations

import multiprocessing
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from asyncsim.base import workers
from asyncsim.live import actor
from asyncsim.live.board import Board
from asyncsim.step.versions import Weights

PATIENCE = 2.0
"""Seconds that an actor has to end by itself."""


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
