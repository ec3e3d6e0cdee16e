"""Policies whose states share parameters, on tasks with a table: logits of all states are computed once a version."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.policies._mlp_network import HEADS, Evaluation, Layout, Network, passes, score_norm
from asyncsim.policies._policy import Replicates, numbers
from asyncsim.policies._tables import Tabular
from asyncsim.step.batch import Batch
from asyncsim.step.versions import View, Weights


@dataclass(frozen=True)
class Shared(Tabular):
    """A softmax over logits that a perceptron computes from one-hot states; see `mlp`."""

    hidden: tuple[int, ...] = ()
    gain: float = 0.0

    # A product of matrices rounds by how many replicates stand beside one another.
    apart: ClassVar[bool] = False

    @cached_property
    def layout(self) -> Layout:
        """Position of each layer in the flat parameters."""
        return Layout(self.rows, self.hidden, self.actions, 0, 0, False)

    @property
    def size(self) -> int:
        return self.layout.size

    def initial(self, replicates: Replicates, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
        """Initial parameters `[R, P]`: orthogonal weights with a gain and no bias."""
        return self.layout.initial(numbers(replicates), seed, self.gain, 0.0).to(dtype)

    def prepare(self, parameters: Tensor) -> Weights:
        """Tables to publish, and the parameters from which they were computed."""
        logits = self._network(parameters).outputs
        return {**super().prepare(logits.contiguous()), "parameters": parameters}

    def score_norm(self, view: View, batch: Batch, weight: Tensor) -> Tensor:
        """Score norm of the perceptron on the states of all tokens."""
        shape, seen = batch.action.shape[:4], self._seen[0, batch.state].flatten(1, 3)
        evaluated = [(Evaluation(self.layout, own, seen), rows) for own, rows in passes(view, shape)]
        return score_norm(HEADS["categorical"], evaluated, batch.action, weight)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "policy": "mlp", "hidden": list(self.hidden)}

    def _gradient(self, view: View, table: Tensor) -> Tensor:
        parameters = view.weights["parameters"].flatten(0, 1)
        gradient = torch.zeros_like(parameters)
        self._network(parameters).pull(table.flatten(0, 1), self.layout.actor(gradient))
        return gradient.unflatten(0, table.shape[:2]).sum(0)

    def _network(self, parameters: Tensor) -> Network:
        """Evaluate the perceptron on all states, logits `[R, S, A]`."""
        seen = self._seen.to(parameters.dtype).expand(len(parameters), -1, -1)
        return Network(self.layout.actor(parameters), seen)

    @cached_property
    def _seen(self) -> Tensor:
        return torch.eye(self.rows, dtype=torch.float64).unsqueeze(0)
