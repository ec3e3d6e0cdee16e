"""What every policy offers, and the record that a forward pass returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from asyncsim.batch import Batch, Draws, Outputs
from asyncsim.versions import View, Weights

Pullback = Callable[[Outputs], Tensor]
"""Cotangents by output name, each `[R, G, N, T]`, to the ascent direction `[R, P]`."""


class Forward(NamedTuple):
    """Detached outputs of a policy on a batch, and the pullback at the parameters that they were computed with."""

    outputs: Outputs
    pullback: Pullback


class Policy(Protocol):
    """A map from parameters `[R, P]` and a batch to named outputs.

    `size` is P; `outputs` names what it can compute; `threads` is how many its tensors are big enough for. `prepare`
    turns parameters into the weights that are published; `act` chooses the actions of one token position from keyed
    draws; `forward` returns detached outputs with their pullback; `score_norm` is the squared norm of each sample's
    summed score with a weight per token.
    """

    @property
    def size(self) -> int: ...

    @property
    def outputs(self) -> tuple[str, ...]: ...

    @property
    def threads(self) -> int: ...

    def initial(self, replicates: int, dtype: torch.dtype) -> Tensor: ...

    def prepare(self, parameters: Tensor) -> Weights: ...

    def act(self, view: View, state: Tensor, draws: Draws, token: int) -> Tensor: ...

    def forward(self, view: View, batch: Batch, names: Iterable[str]) -> Forward: ...

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor: ...

    def describe(self) -> dict[str, Any]: ...


def gathered(view: View, name: str, shape: tuple[int, ...]) -> Tensor:
    """The weights `[R, D]` that each sample reads, `[R, G, N, D]` (or broadcastable to it)."""
    stack = view.weights[name]
    if view.single:
        return stack[int(view.slot.flat[0])][:, None, None, :]
    replicate = torch.arange(stack.shape[1]).reshape(-1, 1, 1)
    return stack[view.slots((*shape, 1))[..., 0], replicate]
