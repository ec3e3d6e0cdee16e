"""The board: weights of the newest version in memory that processes share, read whole or not at all."""

from __future__ import annotations

import math
import mmap
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.step.versions import Weights

TURN, VERSION, SUM, HEAD = 0, 1, 2, 3
"""Words in front of the weights: writes begun and ended, version, checksum of version and weights."""
PATIENCE = 5.0
"""Seconds that a write may take."""


class Sheet(NamedTuple):
    """One tensor on the board."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Mapped(mmap.mmap):
    """Memory of a file, for processes without a common ancestor: pickled, it is the file's name."""

    path: str

    def __new__(cls, path: str) -> Mapped:
        """Map the whole file."""
        with open(path, "r+b") as file:
            made = super().__new__(cls, file.fileno(), 0)
        made.path = path
        return made

    @classmethod
    def made(cls, path: str, size: int) -> Mapped:
        """A file of so many zeros, mapped."""
        with open(path, "wb") as file:
            file.truncate(size)
        return cls(path)

    def __reduce__(self) -> tuple[type[Mapped], tuple[str]]:
        return Mapped, (self.path,)


@dataclass(frozen=True)
class Board:
    """A sequence lock with a checksum: one process writes, all read, nobody waits and nobody can be left waiting.

    The turn is odd while the board is written. A reader copies, and takes the copy if the turn was even and the
    checksum fits: then no machine's order of memory can mix two versions. Memory without a name ends with the last
    process that holds it, however that ends; `Mapped` ends with its folder.
    """

    memory: Any
    sheets: tuple[Sheet, ...]

    @classmethod
    def of(cls, room: Callable[[int], Any], weights: Weights) -> Board:
        """A board for weights of these names and shapes; `room` gives memory of so many bytes, all zero."""
        sheets = tuple(Sheet(name, tuple(tensor.shape), str(tensor.numpy().dtype)) for name, tensor in weights.items())
        board = cls(room(8 * HEAD + sum(sheet.size for sheet in sheets)), sheets)
        board.write(0, weights)
        return board

    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        return np.frombuffer(self.memory, np.int64, HEAD), np.frombuffer(self.memory, np.uint8, offset=8 * HEAD)

    def version(self) -> int:
        """The version that stands there, or is being written."""
        return int(self._parts()[0][VERSION])

    def write(self, version: int, weights: Weights) -> None:
        """Publish a version."""
        head, body = self._parts()
        data = b"".join(weights[sheet.name].numpy().tobytes() for sheet in self.sheets)
        head[TURN] += 1
        body[:] = np.frombuffer(data, np.uint8)
        head[VERSION], head[SUM] = version, zlib.crc32(data, version)
        head[TURN] += 1

    def read(self) -> tuple[int, Weights]:
        """The newest whole version and a copy of its weights; raises `EOFError` where a write is never finished."""
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
