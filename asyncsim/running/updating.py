"""One update: from where training stands and a batch to where it stands then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from asyncsim.methods._evaluate import evaluate
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Batch
from asyncsim.step.minibatches import Cuts, Minibatch
from asyncsim.step.step import Carried, Step
from asyncsim.step.versions import Weights
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain, Record, advance


class Now(NamedTuple):
    """What an update changes: parameters `[R, P]`, what is published of them, states of the links, where each replicate
    left the finite range, `[R]`, and what the advantage remembers.
    """

    parameters: Tensor
    weights: Weights
    states: list[Any]
    diverged: Tensor
    memory: dict[str, Tensor]


class When(NamedTuple):
    """Number of an update, and how many were made since the trained version was published; a program reads tensors."""

    update: Any
    elapsed: Any


@dataclass(frozen=True)
class Updater:
    """What updates are made by; `also` names outputs that metrics read, `limit` bounds the finite range."""

    task: Task
    policy: Policy
    method: Method
    update: Chain
    also: tuple[str, ...]
    updates_per_version: int
    micro_batches: int
    limit: float
    own_bits: ClassVar[bool] = False
    """Whether what is published has other last bits than `policy.prepare` gives."""

    def __call__(
        self, now: Now, batch: Batch, start: Carried | None, when: When, part: Minibatch | None = None
    ) -> tuple[Step, Now, dict[str, Tensor]]:
        """The step of a batch or of a part of it, where training stands then, and numbers `[R]` of the chain."""
        parameters, weights, states, diverged, memory = now
        whole, method = batch, self.recalling(memory if start is None else start.memory)
        if part is not None:
            assert start is not None
            batch, start = part.of(batch, start)
        step = evaluate(method, self.task, self.policy, weights, batch, start, self.also, self.micro_batches)
        step.update, step.elapsed, step.updates_per_version = when.update, when.elapsed, self.updates_per_version
        step.parameters, step.whole = parameters, whole
        nobody = torch.zeros(parameters.shape[0], dtype=torch.bool)
        record, states = self.update.apply(Record(step.gradient, nobody, step, step.reported), states)
        parameters, diverged = advance(parameters, record.direction, diverged, when.update, self.limit, batch.broken)
        if start is None:
            memory = self._behind(step, memory)
        return step, Now(parameters, self.policy.prepare(parameters), states, diverged, memory), record.statistics

    def recalling(self, memory: dict[str, Tensor]) -> Method:
        """The method, whose advantage may remember something."""
        if not memory:
            return self.method
        baseline: Any = self.method.advantage
        return self.method.replace(advantage=baseline.recalling(memory))

    def _behind(self, step: Step, memory: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the advantage remembers behind the batch of a step."""
        return step.method.advantage.behind(step) if memory else memory

    def begin(self, now: Now, batch: Batch, when: When, cuts: Cuts) -> tuple[Carried, Now]:
        """What updates on the minibatches of a batch share, and where training stands when it is known."""
        method = self.recalling(now.memory)
        whole = Step(method, batch, None, None, self.task, self.policy, now.weights, None, method.outputs)
        whole.update, whole.elapsed, whole.updates_per_version = when.update, when.elapsed, self.updates_per_version
        whole.parameters = now.parameters
        return cuts.begin(whole, now.weights), now._replace(memory=self._behind(whole, now.memory))
