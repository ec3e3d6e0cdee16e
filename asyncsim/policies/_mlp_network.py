"""Perceptrons with tanh units, one per replicate, run and pulled back together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from asyncsim.policies._mlp_layout import Layers, Layout
from asyncsim.step.versions import View

_CLIP = 10.0
_EPS = 1e-8


class Network:
    """The inputs of every layer, `[R, n, units]`, and the outputs `[R, n, outputs]`."""

    def __init__(self, layers: Layers, observation: Tensor) -> None:
        self.layers = layers
        self.inputs = [observation]
        minus_one = torch.tensor(-1.0, dtype=observation.dtype)
        for weight, bias in layers[:-1]:
            # tanh x = 2 sigmoid(2x) - 1: torch's sigmoid takes a tenth of the time of its tanh.
            twice = torch.baddbmm(bias.unsqueeze(1), self.inputs[-1], weight, beta=2, alpha=2).sigmoid_()
            self.inputs.append(torch.add(minus_one, twice, alpha=2.0, out=twice))
        weight, bias = layers[-1]
        # A product with few columns is faster as one with few rows.
        self.outputs = torch.baddbmm(bias.unsqueeze(2), weight.mT, self.inputs[-1].mT).mT

    def deltas(self, cotangent: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Cotangents of every layer's sums, `[R, n, units]`, with its number, from the last layer to the first."""
        delta = cotangent
        for number in range(len(self.layers) - 1, -1, -1):
            yield number, delta
            if number:
                weight = self.layers[number][0].mT
                # Of one column and one row it is a table of products, which `bmm` takes ten times as long for.
                product = delta * weight if delta.shape[-1] == 1 else torch.bmm(delta, weight)
                delta = torch.ops.aten.tanh_backward.grad_input(product, self.inputs[number], grad_input=product)

    def pull(self, cotangent: Tensor, into: Layers) -> None:
        """Add the gradient for cotangents of the outputs to views of it."""
        for number, delta in self.deltas(cotangent):
            (weight, bias), inputs = into[number], self.inputs[number]
            few = delta.shape[-1] < inputs.shape[-1]
            weight += torch.bmm(delta.mT, inputs).mT if few else torch.bmm(inputs.mT, delta)
            bias += delta.sum(1)


class Evaluation:
    """Both networks of one set of parameters `[R, P]` on observations `[R, n, D]`, each run when first asked for."""

    def __init__(self, layout: Layout, parameters: Tensor, observation: Tensor) -> None:
        self.layout, self.parameters = layout, parameters
        self.observation = observation.to(parameters.dtype)
        if layout.normalize:
            mean, variance, _ = layout.normalizer(parameters)
            scale = (variance + _EPS).rsqrt().unsqueeze(1)
            self.observation = ((self.observation - mean.unsqueeze(1)) * scale).clamp_(-_CLIP, _CLIP)

    @cached_property
    def actor(self) -> Network:
        """The policy network."""
        return Network(self.layout.actor(self.parameters), self.observation)

    @cached_property
    def valuer(self) -> Network:
        """The value network."""
        return Network(self.layout.valuer(self.parameters), self.observation)

    @property
    def log_std(self) -> Tensor:
        """Spread of a normal head, `[R, 1, spread]`."""
        return self.layout.log_std(self.parameters).unsqueeze(1)

    @property
    def value(self) -> Tensor:
        """Values, `[R, n]`: of the state, or expected under the policy where each action has its own."""
        values = self.valuer.outputs
        if values.shape[-1] == 1:
            return values[..., 0]
        return (self.actor.outputs.softmax(-1) * values).sum(-1)


Pass = tuple[Tensor, Tensor | None]
"""Weights `[R, P]`, and which rows `[R, n]` read them (None: all)."""


def passes(view: View, shape: tuple[int, ...], name: str = "parameters") -> list[Pass]:
    """What to run so that every row of `shape` (`[R, G, N, T]`) is evaluated at its own weights.

    One pass per distinct version of the replicate that has most of them. Every pass evaluates all rows: the rounding of
    a product depends on its shape, and must not depend on which version the other rows read.
    """
    stack = view.weights[name]
    if view.single:
        return [(stack[int(view.slot.flat[0])], None)]
    table = _distinct(view.slot.reshape(view.slot.shape[0], -1))
    table = table if table.shape[0] == 1 else table[view.realization]
    chosen = torch.from_numpy(np.broadcast_to(table, (shape[0], table.shape[1])).copy()).to(stack.device)
    replicate = torch.arange(shape[0], device=stack.device)
    if chosen.shape[1] == 1:
        return [(stack[chosen[:, 0], replicate], None)]
    slots = view.slots(shape).to(stack.device).flatten(1)
    return [(stack[slot.clamp(min=0), replicate], slots == slot.unsqueeze(1)) for slot in chosen.unbind(1)]


def _distinct(slots: np.ndarray) -> np.ndarray:
    """The distinct entries of each row in ascending order, filled up with -1.

    >>> _distinct(np.array([[3, 1, 3], [2, 2, 2]])).tolist()
    [[1, 3], [2, -1]]
    """
    ordered = np.sort(slots, axis=1)
    rank = np.cumsum(np.diff(ordered, axis=1, prepend=ordered[:, :1]) != 0, axis=1)
    table = np.full((len(slots), int(rank.max()) + 1), -1, dtype=np.int64)
    np.put_along_axis(table, rank, ordered, axis=1)
    return table


def merged(parts: list[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Rows `[R, n, ...]` of several passes, each taken from the pass that it reads."""
    out = parts[0][0]
    for rows, chosen in parts[1:]:
        if chosen is not None:
            out = torch.where(chosen.reshape(chosen.shape + (1,) * (rows.ndim - 2)), rows, out)
    return out
