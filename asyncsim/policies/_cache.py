"""Keys and values of tokens that were read before, called as the caches of `transformers` are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
"""Keys and values of one layer, each `[B, H, C, D]`."""

STEP = 32
"""Columns by which a full cache grows."""


class Growing:
    """The keys and values of one pass behind those of a pass before it; gradients go through both.

    `layers` holds what this pass added; the pass before may have had one row, which stands for every row.
    """

    is_compileable = False

    def __init__(self, before: list[Pair] | None = None) -> None:
        self.before = before
        self.layers: list[Pair] = []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> Pair:
        """Keys and values that this pass sees, `[B, H, C, D]`."""
        self.layers.append((key, value))
        if self.before is None:
            return key, value
        rows = key.shape[0]
        old_key, old_value = (x.expand(rows, -1, -1, -1) for x in self.before[layer_idx])
        return torch.cat([old_key, key], 2), torch.cat([old_value, value], 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns so far."""
        before = self.before[layer_idx][0].shape[2] if self.before else 0
        return before + (self.layers[layer_idx][0].shape[2] if len(self.layers) > layer_idx else 0)


class Columns:
    """Keys and values `[B, H, C, D]` of every layer, written one column at a time.

    `point` sets the column and rows that the next pass writes; other rows stay unchanged. Columns behind it are hidden,
    so a column can be written again.
    """

    is_compileable = False

    def __init__(self, layers: list[Pair]) -> None:
        self.layers = layers
        self.column = layers[0][0].shape[2]
        self.rows: Tensor | None = None

    def point(self, column: int, rows: Tensor | None = None) -> None:
        """Aim the next pass at a column; `rows` int64 `[b]`, or all."""
        self.column, self.rows = column, rows
        columns = self.layers[0][0].shape[2]
        if column >= columns:
            self.layers = [(_longer(k, column + STEP), _longer(v, column + STEP)) for k, v in self.layers]

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> Pair:
        """Write one column of a layer; keys and values up to it, `[B, H, column + 1, D]`."""
        pair = self.layers[layer_idx]
        for old, new in zip(pair, (key, value), strict=True):
            if self.rows is None:
                old[:, :, self.column] = new[:, :, 0]
            else:
                old[self.rows, :, self.column] = new[self.rows, :, 0]
        return pair[0][:, :, : self.column + 1], pair[1][:, :, : self.column + 1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns before the one that is written next."""
        return self.column

    def select(self, rows: Tensor) -> Columns:
        """The cache of some rows, int64 `[b]`."""
        return Columns([(k[rows], v[rows]) for k, v in self.layers])

    def resized(self, columns: int) -> Columns:
        """The first columns alone, or zeros behind the last one."""
        return Columns(
            [(_longer(k[:, :, :columns], columns), _longer(v[:, :, :columns], columns)) for k, v in self.layers]
        )

    def concatenate(self, other: Columns) -> Columns:
        """This cache with the rows of another behind it."""
        width = max(cache.layers[0][0].shape[2] for cache in (self, other))
        pairs = zip(self.layers, other.layers, strict=True)
        return Columns(
            [
                (torch.cat([_longer(k, width), _longer(a, width)]), torch.cat([_longer(v, width), _longer(b, width)]))
                for (k, v), (a, b) in pairs
            ]
        )


def _longer(tensor: Tensor, columns: int) -> Tensor:
    """`[B, H, C, D]` with zeros behind the last column."""
    B, H, C, D = tensor.shape
    if columns <= C:
        return tensor
    return torch.cat([tensor, tensor.new_zeros(B, H, columns - C, D)], 2)
