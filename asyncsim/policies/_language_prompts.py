"""Prompts of unequal lengths in one rectangle: what all have in common stands in front, once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.base import checks
from asyncsim.policies._cache import Growing, Pair
from asyncsim.policies._language_network import read

WORTH = 8
"""Tokens that prompts must share for a pass of their own to save work."""


@dataclass(frozen=True)
class Prompts:
    """Prompts split into what they share and the rest.

    `shared` int64 `[K]`; `rest` int64 `[B, W]`, padded with 0 on the left; `length` int64 `[B]` counts all tokens of a
    prompt. A row's columns are K shared ones, W of the rest, and one for each token of its response.
    """

    shared: Tensor
    rest: Tensor
    length: Tensor

    @property
    def width(self) -> int:
        """K + W, the columns in front of the response."""
        return self.shared.shape[0] + self.rest.shape[1]

    def rows(self, rows: Tensor) -> Prompts:
        """Some rows, int64 `[b]`."""
        return replace(self, rest=self.rest[rows], length=self.length[rows])

    def distinct(self) -> tuple[Prompts, Tensor]:
        """Each prompt once, and which of them every row has, int64 `[B]`."""
        first, which = self.alike(self.rest[:, :0])
        return self.rows(first), which

    def alike(self, response: Tensor) -> tuple[Tensor, Tensor]:
        """The first row of each prompt with its response int64 `[B, T]`, `[b]`, and which of them every row is like."""
        return alike(torch.cat([self.length.unsqueeze(1), self.rest, response], 1))

    def occupied(self, tokens: int) -> Tensor:
        """Which columns hold a token, with `tokens` of the response: bool `[B, K + W + tokens]`."""
        W = self.rest.shape[1]
        column = torch.arange(-W, tokens).unsqueeze(0)
        inside = column >= (self.shared.shape[0] - self.length).unsqueeze(1)
        return torch.cat([torch.ones(len(self.length), self.shared.shape[0], dtype=torch.bool), inside], 1)


def alike(table: Tensor) -> tuple[Tensor, Tensor]:
    """The first of each kind of row of a table, int64 `[b]` ascending, and which of these every row equals, `[B]`.

    >>> [part.tolist() for part in alike(torch.tensor([[7, 1], [3, 2], [7, 1], [3, 1]]))]
    [[0, 1, 3], [0, 1, 0, 2]]
    """
    kinds, kind = torch.unique(table, dim=0, return_inverse=True)
    row = torch.arange(len(kind))
    first = torch.full((len(kinds),), len(kind)).scatter_reduce_(0, kind, row, "amin")
    first, order = first.sort()
    rank = torch.empty_like(order)
    rank[order] = row[: len(order)]
    return first, rank[kind]


def lay_out(seen: Tensor, context: int) -> Prompts:
    """Prompts from ids int64 `[B, L]`, padded with -1 on the left."""
    B, L = seen.shape
    length = (seen >= 0).sum(1)
    shortest, longest = int(length.min()), int(length.max())
    checks.require(shortest > 0, "tokens of a prompt", shortest, "at least 1", "give every prompt a text")
    refuse_long(longest, context)
    shared = 0
    if B > 1:
        column = (torch.arange(longest).unsqueeze(0) + (L - length).unsqueeze(1)).clamp(max=L - 1)
        flush = seen.gather(1, column)
        alike = int((flush == flush[:1]).all(0).long().cumprod(0).sum())
        # The last token of a prompt is read in its own row, since its logits choose the first token of the response.
        shared = min(alike, shortest - 1)
        shared = shared if shared >= WORTH else 0
    first = int(length.argmin())
    front = seen[first, L - shortest : L - shortest + shared]
    width = longest - shared
    rest = seen[:, L - width :]
    inside = torch.arange(-width, 0).unsqueeze(0) >= (shared - length).unsqueeze(1)
    return Prompts(front, torch.where(inside, rest, torch.zeros_like(rest)), length)


def refuse_long(tokens: int, context: int) -> None:
    """Refuse more tokens than the model's context holds."""
    remedy = "shorten the prompts or the horizon, or use a model with a longer context"
    checks.require(tokens <= context, "tokens of a prompt and its response", tokens, f"at most {context}", remedy)


def common(network: nn.Module, prompts: Prompts) -> list[Pair] | None:
    """Keys and values of what all prompts share, one row; None where nothing is."""
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
    """Read the rest of each prompt and a response int64 `[B, T]`, which may be empty, behind the shared columns.

    Gives the logits of the last `kept` positions, `[B, kept, V]`, and the new keys and values.
    """
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
    logits = read(network, ids, place, mask.unsqueeze(1), cache, count)
    return logits, cache.layers


def joined(before: list[Pair] | None, layers: list[Pair], which: Tensor) -> list[Pair]:
    """The shared columns and those of the rest, for rows int64 `[b]`: fresh tensors that can be written."""
    if before is None:
        return [(key[which], value[which]) for key, value in layers]
    rows, pairs = len(which), []
    for (old_key, old_value), (key, value) in zip(before, layers, strict=True):
        keys = torch.cat([old_key.expand(rows, -1, -1, -1), key[which]], 2)
        pairs.append((keys, torch.cat([old_value.expand(rows, -1, -1, -1), value[which]], 2)))
    return pairs


def teacher_forced(network: nn.Module, prompts: Prompts, response: Tensor) -> Tensor:
    """Logits of every token of responses int64 `[B, T]`, `[B, T, V]`; equal prompts are read once."""
    before, T = common(network, prompts), response.shape[1]
    distinct, which = prompts.distinct()
    if len(distinct.length) == len(which):
        return read_through(network, prompts, response[:, : T - 1], before, T)[0]
    first, layers = read_through(network, distinct, response[: len(distinct.length), :0], before, 1)
    if T == 1:
        return first[which]
    place = prompts.length.unsqueeze(1) + torch.arange(T - 1)
    occupied = prompts.occupied(0).unsqueeze(1).expand(-1, T - 1, -1)
    earlier = torch.ones(T - 1, T - 1, dtype=torch.bool).tril().expand(len(which), -1, -1)
    mask = torch.cat([occupied, earlier], 2).unsqueeze(1)
    cache = Growing(joined(before, layers, which))
    rest = read(network, response[:, : T - 1].clamp(min=0), place, mask, cache, T - 1)
    return torch.cat([first[which], rest], 1)
