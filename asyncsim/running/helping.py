"""Workers that train blocks: what they take from, what they are told, and what they note for the others."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asyncsim.base import files, memory, workers
from asyncsim.running import parcels
from asyncsim.running.blocks import Block, Shared, computing
from asyncsim.running.sources import Cut
from asyncsim.running.spreading import Site, say
from asyncsim.running.standing import Part, Standing

POLL = 0.1
"""Seconds between two looks at how far workers are."""
TRIES = 2
"""How often a block is begun whose worker dies."""


class Piece(NamedTuple):
    """A block of replicates of one of several runs."""

    job: int
    start: int
    stop: int


class Table:
    """Blocks that nobody has begun, and what the others have left behind, by run and first replicate.

    `received`: signals so far; nobody begins another block once there is one, or something has failed.
    """

    def __init__(self, received: list[int]) -> None:
        self.left: deque[Piece] = deque()
        self.parts: dict[tuple[int, int], Part] = {}
        self.errors: list[Exception] = []
        self.received, self.over = received, False
        self._lock = threading.Lock()

    @property
    def stopped(self) -> bool:
        """Whether all are to stop behind their batch."""
        return self.over or bool(self.received or self.errors)

    def take(self) -> Piece | None:
        """The next block, None where there is none or all are to stop."""
        with self._lock:
            return self.left.popleft() if self.left and not self.stopped else None

    def of(self, job: int) -> list[Part]:
        """What the blocks of a run have left behind, in their order up to the first that nobody began."""
        parts: list[Part] = []
        start = 0
        while (part := self.parts.get((job, start))) is not None:
            parts.append(part)
            start += len(part.parameters)
        return parts


class Board:
    """Updates made of each block, noted at its first replicate, in a file where all write.

    Its last number says to stop.
    """

    def __init__(self, sizes: Sequence[int], path: Path) -> None:
        self.first = np.cumsum([0, *sizes])
        self.numbers = np.memmap(path, np.int64, "w+", shape=(int(self.first[-1]) + 1,))

    def cell(self, piece: Piece) -> int:
        """Where a block is noted."""
        return int(self.first[piece.job]) + piece.start

    def note(self, piece: Piece, made: int) -> None:
        """So many updates of a block are made."""
        self.numbers[self.cell(piece)] = made

    def share(self, pieces: Sequence[Piece], updates: int) -> float:
        """Share of so many updates of all blocks that is made."""
        made = sum(int(self.numbers[self.cell(piece)]) * (piece.stop - piece.start) for piece in pieces)
        return made / (updates * int(self.first[-1]))

    def stop(self) -> None:
        """Let all stop behind their batch."""
        self.numbers[-1] = 1


class Place(NamedTuple):
    """Where a worker finds what it is told of a run and where it notes how far it is.

    `cell` of the board.
    """

    folder: str
    job: int
    cell: int


def train(place: Place, cut: Cut) -> Part | None:
    """Train a block in a worker until the board says to stop; None where it says so before."""
    shared = _told(f"{place.folder}/{place.job}")
    board = np.memmap(f"{place.folder}/board", np.int64, "r+")
    passes = shared.spec.passes

    def after(at: Standing) -> bool:
        board[place.cell] = at.batch * passes
        return bool(board[-1])

    if board[-1]:
        return None
    memory.keep()
    with computing(shared.spec):
        block = Block(shared, cut)
        return block.train(block.begin(), after)


@functools.lru_cache(maxsize=8)
def _told(path: str) -> Shared:
    return parcels.unpacked(Path(path).read_bytes())


class Helpers:
    """Threads that take blocks from the table and ask a worker each to train them, until nothing is left.

    Raises `Unsendable` where a worker cannot have a part of a run.
    """

    def __init__(self, site: Site, table: Table, runs: Sequence[Shared], cut: Callable[[Piece], Cut]) -> None:
        self.site, self.table, self.cut = site, table, cut
        told = [parcels.packed(shared) for shared in runs]
        self.folder = files.Temporary()
        for number, data in enumerate(told):
            (Path(self.folder.path) / str(number)).write_bytes(data)
        self.board = Board([shared.spec.replicates for shared in runs], Path(self.folder.path) / "board")
        self.threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        """Begin, so many."""
        # Pages that processes give back and take again at the same time slow each other down.
        memory.keep()
        self.site.start()
        self.threads = [threading.Thread(target=self._help, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def look(self) -> None:
        """Tell workers when to stop."""
        if self.table.stopped:
            self.board.stop()

    def going(self) -> bool:
        """Whether some still train, after waiting a moment for one."""
        alive = [thread for thread in self.threads if thread.is_alive()]
        if alive:
            alive[0].join(POLL)
        return bool(alive)

    def leave(self) -> None:
        """Wait for all threads, whose workers have stopped or were ended."""
        for thread in self.threads:
            thread.join()
        self.folder.remove()

    def _help(self) -> None:
        while (piece := self.table.take()) is not None:
            try:
                part = self._ask(piece)
            except parcels.Unsendable as reason:
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
        """What a worker makes of a block; where it dies, the block is begun again in another."""
        place = Place(self.folder.path, piece.job, self.board.cell(piece))
        for more in reversed(range(TRIES)):
            try:
                return self.site.call("asyncsim.running.helping:train", place, self.cut(piece))
            except workers.Died as error:
                if self.table.received:
                    return None  # what ends this process may have ended the worker as well
                if self.table.stopped or not more:
                    raise
                say(f"{error}; its block is trained again")
                self.board.note(piece, 0)
        return None
