"""Prompts of unequal lengths in one array, their shared prefix, and caches of the columns that were read before.

Keys and values are called as the caches of `transformers` are. Engines may go on with entries that outlive the weights
that wrote them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.base import checks
from asyncsim.policies._language_network import read

Pair = tuple[Tensor, Tensor]
"""Keys and values of one layer, each `[B, H, C, D]`."""

STEP = 32
"""Columns by which a full cache grows."""
WORTH = 8
"""Tokens that prompts must share for a pass of their own to save work."""


class Growing:
    """Key-value cache that appends one pass to an earlier pass; gradients flow through both."""

    is_compileable = False

    def __init__(self, before: list[Pair] | None = None) -> None:
        self.before = before
        self.layers: list[Pair] = []

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> Pair:
        """Keys and values of a layer that are visible to this pass, `[B, H, C, D]`."""
        self.layers.append((key, value))
        if self.before is None:
            return key, value
        old_key, old_value = (x.expand(key.shape[0], -1, -1, -1) for x in self.before[layer_idx])
        return torch.cat([old_key, key], 2), torch.cat([old_value, value], 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of columns in the cache so far."""
        before = self.before[layer_idx][0].shape[2] if self.before else 0
        return before + (self.layers[layer_idx][0].shape[2] if len(self.layers) > layer_idx else 0)


class Columns:
    """Key-value cache `[B, H, C, D]` of every layer, written one column at a time."""

    is_compileable = False

    def __init__(self, layers: list[Pair]) -> None:
        self.layers = layers
        self.column = layers[0][0].shape[2]
        self.rows: Tensor | None = None

    def point(self, column: int, rows: Tensor | None = None) -> None:
        """Set the cache column that the next pass writes, for `rows` int64 `[b]` or all."""
        self.column, self.rows = column, rows
        columns = self.layers[0][0].shape[2]
        if column >= columns:
            self.layers = self.resized(column + STEP).layers

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> Pair:
        """Write one column of a layer's cache; return keys and values up to it, `[B, H, column + 1, D]`."""
        pair = self.layers[layer_idx]
        for old, new in zip(pair, (key, value), strict=True):
            if self.rows is None:
                old[:, :, self.column] = new[:, :, 0]
            else:
                old[self.rows, :, self.column] = new[self.rows, :, 0]
        return pair[0][:, :, : self.column + 1], pair[1][:, :, : self.column + 1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of cache columns before the column that is written next."""
        return self.column

    def select(self, rows: Tensor) -> "Columns":
        """Cache that has only the rows int64 `[b]`."""
        return Columns([(k[rows], v[rows]) for k, v in self.layers])

    def resized(self, columns: int) -> "Columns":
        """Cache that has only the first `columns` columns, padded with zeros if there are fewer."""
        return Columns([(_fitted(k, columns), _fitted(v, columns)) for k, v in self.layers])


def together(caches: Sequence[Columns]) -> Columns:
    """Concatenate the rows of several key-value caches into fresh tensors."""
    width = max(cache.layers[0][0].shape[2] for cache in caches)
    layers = zip(*(cache.resized(width).layers for cache in caches), strict=True)
    return Columns([(torch.cat([k for k, _ in pairs]), torch.cat([v for _, v in pairs])) for pairs in layers])


def _fitted(tensor: Tensor, columns: int) -> Tensor:
    """`[B, H, C, D]` cut to so many columns, or padded with zeros after the last one."""
    B, H, C, D = tensor.shape
    if columns <= C:
        return tensor[:, :, :columns]
    return torch.cat([tensor, tensor.new_zeros(B, H, columns - C, D)], 2)


class Kept:
    """Key-value columns of rows that no lane is using, with the weights that computed each entry.

    `writer` int64 `[B, t]`: number of the weights that drew a token, and so wrote the column in front of it (-1: none
    yet). `digests`: those weights in the order of their numbers; equal weights have one number. `away`: the columns of
    a row, as a cache and its place in it.
    """

    def __init__(self, rows: int) -> None:
        self.writer = torch.full((rows, 0), -1)
        self.digests: list[str] = []
        self.away: dict[int, tuple[Columns, int]] = {}

    def number(self, flat: Tensor) -> int:
        """Index of the weights `[P]`, identified by their bits, so that unchanged weights keep their index."""
        digest = hashlib.blake2b(flat.detach().cpu().contiguous().numpy().tobytes(), digest_size=16).hexdigest()
        if digest not in self.digests:
            self.digests.append(digest)
        return self.digests.index(digest)

    def note(self, token: int, rows: Tensor, number: int) -> Tensor:
        """Record which weights sample a token of some rows; return whether others computed any visible entry, `[b]`."""
        missing = token + 1 - self.writer.shape[1]
        if missing > 0:
            self.writer = torch.nn.functional.pad(self.writer, (0, missing), value=-1)
        self.writer[rows, token] = number
        return (self.writer[rows, :token] != number).any(1)

    def put(self, rows: Tensor, columns: Columns) -> None:
        """Store the cache columns of rows int64 `[b]`, which must not be shared."""
        self.away |= {row: (columns, place) for place, row in enumerate(rows.tolist())}

    def copy(self, rows: Tensor) -> Columns:
        """Stored cache columns of rows int64 `[b]` in this order, as fresh tensors."""
        places = [self.away[row] for row in rows.tolist()]
        return together([columns.select(torch.tensor([place])) for columns, place in places])

    def drop(self, rows: Tensor) -> None:
        """Delete the stored cache columns of some rows."""
        for row in rows.tolist():
            self.away.pop(row, None)

    def cut(self, rows: Tensor, columns: Columns | None) -> "Kept":
        """Select some rows int64 `[b]`, with their stored cache columns."""
        fresh = Kept(len(rows))
        fresh.digests, fresh.writer = list(self.digests), self.writer[rows].clone()
        if columns is not None:
            fresh.put(torch.arange(len(rows)), columns)
        return fresh

    def packed(self, rows: Tensor, columns: Columns | None) -> dict[str, Any]:
        """Pack the stored cache columns into plain containers, for the rows int64 `[b]` that have any."""
        layers = [] if columns is None else columns.layers
        return {"digests": self.digests, "writer": self.writer, "rows": rows, "layers": layers}

    @classmethod
    def unpacked(cls, tree: dict[str, Any]) -> "Kept":
        """Restore the stored cache columns that `packed` wrote."""
        kept = cls(len(tree["writer"]))
        kept.digests, kept.writer = tree["digests"], tree["writer"]
        if tree["layers"]:
            kept.put(tree["rows"], Columns([(key, value) for key, value in tree["layers"]]))
        return kept


@dataclass(frozen=True)
class Prompts:
    """Tokens of all prompts, split into a prefix shared by all prompts and the rest.

    `shared` int64 `[K]`; `rest` int64 `[B, W]`, padded with 0 on the left; `length` int64 `[B]` counts all tokens of a
    prompt. A row's columns are K shared ones, W of the rest, and one for each token of its response.
    """

    shared: Tensor
    rest: Tensor
    length: Tensor

    @property
    def width(self) -> int:
        """Number of cache columns before the response, K + W."""
        return self.shared.shape[0] + self.rest.shape[1]

    def rows(self, rows: Tensor) -> "Prompts":
        """Prompts of the rows int64 `[b]` only."""
        return replace(self, rest=self.rest[rows], length=self.length[rows])

    def alike(self, response: Tensor) -> tuple[Tensor, Tensor]:
        """First row of each distinct prompt with response int64 `[B, T]`, `[b]`, and each row's index among them."""
        return alike(torch.cat([self.length.unsqueeze(1), self.rest, response], 1))

    def occupied(self, tokens: int) -> Tensor:
        """Cache columns that hold a token, including `tokens` of the response: bool `[B, K + W + tokens]`."""
        column = torch.arange(-self.rest.shape[1], tokens).unsqueeze(0)
        inside = column >= (self.shared.shape[0] - self.length).unsqueeze(1)
        return torch.cat([torch.ones(len(self.length), self.shared.shape[0], dtype=torch.bool), inside], 1)


def alike(table: Tensor) -> tuple[Tensor, Tensor]:
    """First row of each distinct kind in a table or list, int64 `[b]` ascending, and each row's index among them.

    >>> [part.tolist() for part in alike(torch.tensor([[7, 1], [3, 2], [7, 1], [3, 1]]))]
    [[0, 1, 3], [0, 1, 0, 2]]
    """
    # Of single numbers torch asks in one sort, of rows one by one.
    kinds, kind = torch.unique(table, dim=0 if table.ndim > 1 else None, return_inverse=True)
    row = torch.arange(len(kind))
    first = torch.full((len(kinds),), len(kind)).scatter_reduce_(0, kind, row, "amin")
    first, order = first.sort()
    rank = torch.empty_like(order)
    rank[order] = row[: len(order)]
    return first, rank[kind]


def lay_out(seen: Tensor, context: int, sharing: bool = True) -> Prompts:
    """Arrange ids int64 `[B, L]`, padded with -1 on the left, as prompts; without `sharing`, no prefix is shared."""
    B, L = seen.shape
    length = (seen >= 0).sum(1)
    shortest, longest = int(length.min()), int(length.max())
    checks.require(shortest > 0, "tokens of a prompt", shortest, "at least 1", "give every prompt a text")
    refuse_long(longest, context)
    shared = 0
    if B > 1 and sharing:
        column = (torch.arange(longest).unsqueeze(0) + (L - length).unsqueeze(1)).clamp(max=L - 1)
        flush = seen.gather(1, column)
        alike = int((flush == flush[:1]).all(0).long().cumprod(0).sum())
        # The last token of a prompt is read in its own row, since its logits choose the first token of the response.
        shared = min(alike, shortest - 1)
        shared = shared if shared >= WORTH else 0
    front = seen[int(length.argmin()), L - shortest : L - shortest + shared]
    width = longest - shared
    rest = seen[:, L - width :]
    inside = torch.arange(-width, 0).unsqueeze(0) >= (shared - length).unsqueeze(1)
    return Prompts(front, torch.where(inside, rest, torch.zeros_like(rest)), length)


def refuse_long(tokens: int, context: int) -> None:
    """Refuse more tokens than the model's context can hold."""
    remedy = "shorten the prompts or the horizon, or use a model with a longer context"
    checks.require(tokens <= context, "tokens of a prompt and its response", tokens, f"at most {context}", remedy)


def common(network: nn.Module, prompts: Prompts) -> list[Pair] | None:
    """Keys and values of the prompts' shared prefix, one row; None if the prefix is empty."""
    K = prompts.shared.shape[0]
    if K == 0:
        return None
    cache = Growing()
    causal = torch.ones(K, K, dtype=torch.bool).tril()[None, None]
    read(network, prompts.shared.unsqueeze(0), torch.arange(K).unsqueeze(0), causal, cache, 1)
    return cache.layers


def read_through(
    network: nn.Module, prompts: Prompts, response: Tensor, before: list[Pair] | None, count: int
) -> tuple[Tensor, list[Pair]]:
    """Read the rest of each prompt and a response int64 `[B, T]`, which may be empty, after the shared prefix."""
    ids = torch.cat([prompts.rest, response.clamp(min=0)], 1)
    K, L = prompts.shared.shape[0], ids.shape[1]
    place = (torch.arange(L).unsqueeze(0) - prompts.rest.shape[1] + prompts.length.unsqueeze(1)).clamp(min=0)
    occupied = prompts.occupied(response.shape[1])
    itself = torch.eye(L, dtype=torch.bool)
    earlier = torch.ones(L, L, dtype=torch.bool).tril()
    all_shared = torch.ones(L, K, dtype=torch.bool)
    # Padding sees itself: a softmax over nothing would be NaN.
    mask = (torch.cat([all_shared, earlier], 1) & occupied.unsqueeze(1)) | torch.cat([~all_shared, itself], 1)
    cache: Any = Growing(before)
    return read(network, ids, place, mask.unsqueeze(1), cache, count), cache.layers


def joined(before: list[Pair] | None, layers: list[Pair], which: Tensor) -> list[Pair]:
    """Cache columns of the shared prefix followed by the rest, for rows int64 `[b]`, as fresh writable tensors."""
    if before is None:
        return [(key[which], value[which]) for key, value in layers]
    rows, pairs = len(which), []
    for (old_key, old_value), (key, value) in zip(before, layers, strict=True):
        keys = torch.cat([old_key.expand(rows, -1, -1, -1), key[which]], 2)
        pairs.append((keys, torch.cat([old_value.expand(rows, -1, -1, -1), value[which]], 2)))
    return pairs


def teacher_forced(network: nn.Module, prompts: Prompts, response: Tensor) -> Tensor:
    """Logits of every token in responses int64 `[B, T]`, `[B, T, V]`; equal prompts are read only once."""
    before, T = common(network, prompts), response.shape[1]
    rows, which = prompts.alike(response[:, :0])
    if len(rows) == len(which):
        return read_through(network, prompts, response[:, : T - 1], before, T)[0]
    first, layers = read_through(network, prompts.rows(rows), response[rows, :0], before, 1)
    if T == 1:
        return first[which]
    place = prompts.length.unsqueeze(1) + torch.arange(T - 1)
    occupied = prompts.occupied(0).unsqueeze(1).expand(-1, T - 1, -1)
    earlier = torch.ones(T - 1, T - 1, dtype=torch.bool).tril().expand(len(which), -1, -1)
    mask = torch.cat([occupied, earlier], 2).unsqueeze(1)
    cache = Growing(joined(before, layers, which))
    rest = read(network, response[:, : T - 1].clamp(min=0), place, mask, cache, T - 1)
    return torch.cat([first[which], rest], 1)
