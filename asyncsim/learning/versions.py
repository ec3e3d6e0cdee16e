"""Weights by version: the store of published weights, and the view that says which weights each token reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Weights = dict[str, Tensor]
"""A policy's prepared weights: named tensors with the replicate axis first, `[R, ...]`."""


_DEVICES = ["cpu"]


@contextmanager
def on(device: str) -> Iterator[None]:
    """New tensors on a device.

    Torch's default is left alone for the CPU: setting it is a mode that slows every small tensor, as is asking for it.
    """
    if device == _DEVICES[-1]:
        yield
        return
    _DEVICES.append(device)
    try:
        with torch.device(device):
            yield
    finally:
        _DEVICES.pop()


def tensor(array: np.ndarray) -> Tensor:
    """NumPy numbers on the device of the run; shares memory on the CPU."""
    values = torch.from_numpy(array)
    return values if _DEVICES[-1] == "cpu" else values.to(_DEVICES[-1])


@dataclass(frozen=True)
class View:
    """Weights stacked over slots, with the slot that each token reads.

    `weights`: tensors `[H, R, ...]`; `slot`: int64 `[M or 1, G or 1, N or 1, T or 1]`; `realization`: int `[R]`.
    """

    weights: Weights
    slot: np.ndarray
    realization: np.ndarray

    @property
    def single(self) -> bool:
        """Whether every token of every replicate reads the same slot."""
        return self.slot.size == 1

    def slots(self, shape: tuple[int, ...]) -> Tensor:
        """Slot of every token, int64, broadcast to `[R, G, N, T]`."""
        rows = self.slot if self.slot.shape[0] == 1 else self.slot[self.realization]
        return tensor(np.broadcast_to(rows, shape).copy())

    def token(self, t: int) -> View:
        """The view for one token position, T = 1."""
        return self if self.slot.shape[3] == 1 else View(self.weights, self.slot[..., t : t + 1], self.realization)


def current(weights: Weights) -> View:
    """The view in which every token reads one set of weights."""
    replicates = next(iter(weights.values())).shape[0]
    one = np.zeros((1, 1, 1, 1), dtype=np.int64)
    return View({k: w.unsqueeze(0) for k, w in weights.items()}, one, np.zeros(replicates, dtype=np.int64))


class Store:
    """Published weights, kept exactly as long as some batch still needs them.

    Slots are reused. Memory is bounded by the number of versions needed at one time, not by the length of the run, even
    when version 0 is needed throughout.
    """

    def __init__(self, realization: np.ndarray) -> None:
        self.realization = realization
        self.stack: Weights = {}
        self.slot_of: dict[int, int] = {}
        self.free: list[int] = []

    def put(self, version: int, weights: Weights) -> None:
        """Keep the weights of a version."""
        if not self.free:
            self._grow(weights)
        slot = self.free.pop()
        self.slot_of[version] = slot
        for name, tensor in weights.items():
            self.stack[name][slot].copy_(tensor)

    def retire(self, versions: list[int]) -> None:
        """Give back the slots of versions that no later batch needs."""
        for version in versions:
            if version in self.slot_of:
                self.free.append(self.slot_of.pop(version))

    def view(self, version: np.ndarray) -> View:
        """The view for tokens of the given versions, int `[M, G, N, T or 1]`."""
        low, high = int(version.min()), int(version.max())
        if low == high:
            slot = np.full((1, 1, 1, 1), self.slot_of[low], dtype=np.int64)
        else:
            table = np.full(high - low + 1, -1, dtype=np.int64)
            for known, position in self.slot_of.items():
                if low <= known <= high:
                    table[known - low] = position
            slot = table[version - low]
        return View(self.stack, slot, self.realization)

    def packed(self) -> dict[str, Any]:
        """The kept weights in plain containers; `restore` is the way back."""
        slots = list(self.slot_of.values())
        return {
            "slot_of": self.slot_of,
            "free": self.free,
            "capacity": len(slots) + len(self.free),
            "weights": {name: stack[slots] for name, stack in self.stack.items()},
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Keep what was kept when `packed` was asked, in the same slots."""
        self.slot_of, self.free = dict(tree["slot_of"]), list(tree["free"])
        slots = list(self.slot_of.values())
        for name, rows in tree["weights"].items():
            self.stack[name] = rows.new_zeros((tree["capacity"], *rows.shape[1:]))
            self.stack[name][slots] = rows

    def _grow(self, weights: Weights) -> None:
        capacity = next(iter(self.stack.values())).shape[0] if self.stack else 0
        growth = max(2, capacity)
        for name, tensor in weights.items():
            fresh = torch.empty((capacity + growth, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
            if capacity:
                fresh[:capacity] = self.stack[name]
            self.stack[name] = fresh
        self.free.extend(range(capacity + growth - 1, capacity - 1, -1))
