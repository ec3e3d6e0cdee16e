"""Cache entries that outlive the weights that wrote them: engines that go on with old keys and values."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from asyncsim.policies._cache import Columns


class Kept:
    """Columns of rows that no lane is reading, and which weights wrote what.

    `writer` int64 `[B, t]`: number of the weights that drew a token, and so wrote the column in front of it (-1: none
    yet). `digests`: those weights in the order of their numbers; equal weights have one number. `piece` and `index`
    int64 `[B]`: where the columns of a row lie (-1: nowhere).
    """

    def __init__(self, rows: int) -> None:
        self.writer = torch.full((rows, 0), -1)
        self.digests: list[str] = []
        self.pieces: dict[int, Columns] = {}
        self.piece, self.index = torch.full((rows,), -1), torch.zeros(rows, dtype=torch.int64)
        self.made = 0

    def number(self, flat: Tensor) -> int:
        """The number of weights `[P]`, told by their bits: a version that changed nothing keeps the number."""
        digest = hashlib.blake2b(flat.detach().cpu().contiguous().numpy().tobytes(), digest_size=16).hexdigest()
        if digest not in self.digests:
            self.digests.append(digest)
        return self.digests.index(digest)

    def note(self, token: int, rows: Tensor, number: int) -> Tensor:
        """Note who draws a token of some rows; whether any entry that it reads was written by others, bool `[b]`."""
        missing = token + 1 - self.writer.shape[1]
        if missing > 0:
            self.writer = torch.nn.functional.pad(self.writer, (0, missing), value=-1)
        self.writer[rows, token] = number
        return (self.writer[rows, :token] != number).any(1)

    def put(self, rows: Tensor, columns: Columns) -> None:
        """Put the columns of rows int64 `[b]` away; they belong to nobody else."""
        if len(rows) == 0:
            return
        self.piece[rows], self.index[rows] = self.made, torch.arange(len(rows))
        self.pieces[self.made] = columns
        self.made += 1
        self._tidy()

    def copy(self, rows: Tensor) -> Columns:
        """Columns of rows int64 `[b]` that were put away, in this order; fresh tensors."""
        numbers, which = torch.unique(self.piece[rows], return_inverse=True)
        found: Columns | None = None
        order = []
        for k, number in enumerate(numbers.tolist()):
            places = (which == k).nonzero()[:, 0]
            part = self.pieces[number].select(self.index[rows[places]])
            found = part if found is None else found.concatenate(part)
            order.append(places)
        assert found is not None
        return found.select(torch.cat(order).argsort())

    def drop(self, rows: Tensor) -> None:
        """Forget what was put away of rows."""
        self.piece[rows] = -1
        self._tidy()

    def cut(self, rows: Tensor, columns: Columns | None) -> Kept:
        """The same of some rows int64 `[b]`, with their columns."""
        fresh = Kept(len(rows))
        fresh.digests, fresh.writer = list(self.digests), self.writer[rows].clone()
        if columns is not None:
            fresh.put(torch.arange(len(rows)), columns)
        return fresh

    def packed(self, rows: Tensor, columns: Columns | None) -> dict[str, Any]:
        """Plain containers; `columns` of the rows int64 `[b]` that have any."""
        layers = [] if columns is None else columns.layers
        return {"digests": self.digests, "writer": self.writer, "rows": rows, "layers": layers}

    @classmethod
    def unpacked(cls, tree: dict[str, Any]) -> Kept:
        """What `packed` wrote."""
        kept = cls(len(tree["writer"]))
        kept.digests, kept.writer = tree["digests"], tree["writer"]
        if tree["layers"]:
            kept.put(tree["rows"], Columns([(key, value) for key, value in tree["layers"]]))
        return kept

    def _tidy(self) -> None:
        """Let go of pieces of which no row is left."""
        used = set(self.piece.tolist())
        self.pieces = {number: columns for number, columns in self.pieces.items() if number in used}
