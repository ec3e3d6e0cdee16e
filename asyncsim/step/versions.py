"""Weights by version: the store of published weights, and the view that assigns weights to tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.fusing import tape

Weights = dict[str, Tensor]
"""A policy's prepared weights: named tensors with the replicate axis first, `[R, ...]`."""
_DEVICES = ["cpu"]
AT_HAND = "at hand: torch finds no CUDA device"
"""What a requested device has to be."""


def at_hand(device: str) -> bool:
    """Whether torch can compute on the named device."""
    return not device.startswith("cuda") or torch.cuda.is_available()


@contextmanager
def on(device: str) -> Iterator[None]:
    """Context in which new tensors are created on a device.

    For the CPU torch's default is unchanged: setting it is a mode that slows every small tensor, as does reading it.
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


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Context that limits torch's threads: two gain nothing on small tensors, and are ten times slower on a busy core.

    A single thread also rounds equally everywhere.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, count))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tensor(array: np.ndarray) -> Tensor:
    """Convert a NumPy array to a tensor on the run's device; on the CPU it shares memory."""
    tape.refuse("numbers from outside of tensors")
    values = torch.from_numpy(array)
    return values if _DEVICES[-1] == "cpu" else values.to(_DEVICES[-1])


@dataclass(frozen=True)
class View:
    """Weights of several versions stacked in slots, and the slot that each token reads.

    `weights`: tensors `[H, R, ...]`; `slot`: int64 `[M or 1, G or 1, N or 1, T or 1]`; `realization`: int `[R]`.
    """

    weights: Weights
    slot: np.ndarray
    realization: np.ndarray

    @property
    def single(self) -> bool:
        """Whether every token of every replicate reads the same slot of weights."""
        return self.slot.size == 1

    def slots(self, shape: tuple[int, ...]) -> Tensor:
        """Slot of weights that every token reads, int64, broadcast to `[R, G, N, T]`."""
        rows = self.slot if self.slot.shape[0] == 1 else self.slot[self.realization]
        return tensor(np.broadcast_to(rows, shape).copy())

    def token(self, t: int) -> "View":
        """The view for one token position (T = 1)."""
        return self if self.slot.shape[3] == 1 else View(self.weights, self.slot[..., t : t + 1], self.realization)


def current(weights: Weights) -> View:
    """The view in which every token reads the given weights."""
    replicates = next(iter(weights.values())).shape[0]
    one = np.zeros((1, 1, 1, 1), dtype=np.int64)
    return View({k: w.unsqueeze(0) for k, w in weights.items()}, one, np.zeros(replicates, dtype=np.int64))


class Store:
    """Published weights by version, kept as long as some batch still needs them.

    A batch of one version reads its weights directly. Only for a batch of mixed versions are weights copied side by
    side, into slots that are reused. So the versions needed at one time bound the memory, not the length of the run.
    """

    def __init__(self, realization: np.ndarray) -> None:
        self.realization = realization
        self.kept: dict[int, Weights] = {}
        self.stack: Weights = {}
        self.slot_of: dict[int, int] = {}
        self.free: list[int] = []

    def put(self, version: int, weights: Weights) -> None:
        """Store the weights of a version, which must not be changed in place afterwards."""
        self.kept[version] = weights

    def retire(self, versions: list[int]) -> None:
        """Remove the weights of versions that no later batch needs."""
        for version in versions:
            self.kept.pop(version, None)
            if version in self.slot_of:
                self.free.append(self.slot_of.pop(version))

    def view(self, version: np.ndarray) -> View:
        """View of the stored weights for tokens of the given versions, int `[M, G, N, T or 1]`."""
        low, high = int(version.min()), int(version.max())
        if low == high:
            one = np.zeros((1, 1, 1, 1), dtype=np.int64)
            return View({name: w.unsqueeze(0) for name, w in self.kept[low].items()}, one, self.realization)
        table = np.full(high - low + 1, -1, dtype=np.int64)
        for known in self.kept:
            if low <= known <= high:
                table[known - low] = self._slot(known)
        return View(self.stack, table[version - low], self.realization)

    def packed(self) -> dict[str, Any]:
        """The stored weights in plain containers; the inverse of `restore`."""
        return {"versions": list(self.kept), "weights": list(self.kept.values())}

    def restore(self, tree: dict[str, Any]) -> None:
        """Restore the stored weights that `packed` returned."""
        self.kept = dict(zip(tree["versions"], tree["weights"], strict=True))

    def _slot(self, version: int) -> int:
        """The slot of a version in the stack, to which its weights are moved at the first call."""
        if version not in self.slot_of:
            weights = self.kept[version]
            if not self.free:
                self._grow(weights)
            slot = self.slot_of[version] = self.free.pop()
            for name, tensor in weights.items():
                self.stack[name][slot].copy_(tensor)
            self._move(version)
        return self.slot_of[version]

    def _move(self, version: int) -> None:
        self.kept[version] = {name: rows[self.slot_of[version]] for name, rows in self.stack.items()}

    def _grow(self, weights: Weights) -> None:
        capacity = next(iter(self.stack.values())).shape[0] if self.stack else 0
        growth = max(2, capacity)
        for name, tensor in weights.items():
            fresh = torch.empty((capacity + growth, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
            if capacity:
                fresh[:capacity] = self.stack[name]
            self.stack[name] = fresh
        self.free.extend(range(capacity + growth - 1, capacity - 1, -1))
        for version in self.slot_of:
            self._move(version)
