"""Where the parts of a perceptron policy lie in its flat parameters, and its first weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import rng
from asyncsim.policies._rounding import rounded

Layers = list[tuple[Tensor, Tensor]]
"""Weights `[R, inputs, outputs]` and biases `[R, outputs]` of each layer, from the input on."""


@dataclass(frozen=True)
class Layout:
    """Policy layers, the spread of a normal head, value layers, observation normalizer: in this order in `[R, P]`.

    `observation` D; `hidden`, units of each hidden layer of both networks; `width`, outputs of the policy network;
    `spread`, entries of `log_std` (0: none); `values`, outputs of the value network (0: there is none); `normalize`,
    whether there is a normalizer.
    """

    observation: int
    hidden: tuple[int, ...]
    width: int
    spread: int
    values: int
    normalize: bool

    def shapes(self, outputs: int) -> list[tuple[int, int]]:
        """Inputs and outputs of every layer of a network."""
        units = (self.observation, *self.hidden, outputs)
        return list(pairwise(units))

    @property
    def spread_begin(self) -> int:
        """Entries of the policy layers."""
        return sum((i + 1) * o for i, o in self.shapes(self.width))

    @property
    def critic_begin(self) -> int:
        """Entries before the value layers."""
        return self.spread_begin + self.spread

    @property
    def trained(self) -> int:
        """Entries that gradients move; the normalizer lies behind them."""
        return self.critic_begin + (sum((i + 1) * o for i, o in self.shapes(self.values)) if self.values else 0)

    @property
    def size(self) -> int:
        """P."""
        return self.trained + (2 * self.observation + 1 if self.normalize else 0)

    def actor(self, flat: Tensor) -> Layers:
        """Views of the policy layers."""
        return self._layers(flat, 0, self.width)

    def valuer(self, flat: Tensor) -> Layers:
        """Views of the value layers."""
        return self._layers(flat, self.critic_begin, self.values)

    def log_std(self, flat: Tensor) -> Tensor:
        """View of the spread, `[R, spread]`."""
        return flat[:, self.spread_begin : self.critic_begin]

    def normalizer(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views of the running mean and variance, `[R, D]`, and of the count of observations, `[R, 1]`."""
        mean, variance, count = flat[:, self.trained :].split((self.observation, self.observation, 1), dim=1)
        return mean, variance, count

    def rounded(self, flat: Tensor, form: str) -> Tensor:
        """The same parameters with the policy network in a number format; int8 has a scale for each unit's inputs."""
        out = flat.clone()
        for weight, bias in self.actor(out):
            weight.copy_(rounded(weight, form, 1))
            bias.copy_(rounded(bias, form, None))
        spread = self.log_std(out)
        spread.copy_(rounded(spread, form, None))
        return out

    def _layers(self, flat: Tensor, begin: int, outputs: int) -> Layers:
        layers = []
        for i, o in self.shapes(outputs):
            weight = flat[:, begin : begin + i * o].unflatten(1, (i, o))
            layers.append((weight, flat[:, begin + i * o : begin + (i + 1) * o]))
            begin += (i + 1) * o
        return layers

    def initial(self, replicates: np.ndarray, seed: int, gain: float, log_std: float) -> Tensor:
        """Orthogonal weights, float64 `[R, P]`: gain sqrt(2) for hidden layers, `gain` and 1 for the last ones."""
        flat = torch.zeros((len(replicates), self.size), dtype=torch.float64)
        networks = [(self.actor(flat), gain)] + ([(self.valuer(flat), 1.0)] if self.values else [])
        layer = 0
        for layers, last in networks:
            for k, (weight, _) in enumerate(layers):
                scale = math.sqrt(2.0) if k + 1 < len(layers) else last
                weight.copy_(scale * _orthogonal(replicates, seed, layer, weight.shape[1], weight.shape[2]))
                layer += 1
        self.log_std(flat).fill_(log_std)
        if self.normalize:
            self.normalizer(flat)[1].fill_(1.0)
        return flat


def _orthogonal(replicates: np.ndarray, seed: int, layer: int, inputs: int, outputs: int) -> Tensor:
    """One matrix with orthonormal rows or columns per replicate, uniform among them, float64 `[R, inputs, outputs]`.

    Draws are keyed by (replicate, row, layer, column).
    """
    from asyncsim.base import rng_compiled

    long, short = max(inputs, outputs), min(inputs, outputs)
    normals = np.empty((len(replicates), long, short))
    rows, first = np.arange(long).reshape(1, -1), np.zeros(len(replicates), dtype=np.int64)
    rng_compiled.fill_normals(*rng.Stream(seed, "initial").key, replicates, first, rows, layer, 0, normals)
    q, r = torch.linalg.qr(torch.from_numpy(normals))
    # QR leaves the signs of the columns open; those of the diagonal make it unique, hence uniform.
    q = q * torch.where(r.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).unsqueeze(1)
    return q if inputs >= outputs else q.mT
