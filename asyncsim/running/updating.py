"""One update: from where training stands and a batch to where it stands then; and what a block leaves behind."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import records
from asyncsim.methods._method import Method, evaluate
from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Batch
from asyncsim.step.minibatches import Cuts, Minibatch
from asyncsim.step.step import OUTSIDE, Carried, Step
from asyncsim.step.versions import Weights
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain, Record, advance


class Standing(NamedTuple):
    """What the next batch is trained from, beside what feed, source and recorder hold.

    `batch`: its number; `parameters` `[R, P]`; `states` of the update chain's links; `diverged` `[R]`: the update at
    which a replicate left the finite range (-1: never). `memory` of the advantage. `weights`: what is published of
    the parameters, where a program made it, since tensors would give other last bits; else None.
    """

    batch: int
    parameters: Tensor
    states: list[Any]
    diverged: Tensor
    memory: dict[str, Tensor]
    weights: Any = None


class Part(NamedTuple):
    """What a block leaves behind, and how many of its updates were made.

    `axes`: names of the axes of accumulated arrays; `schedule`: the realized one of a coupled system, else None.
    """

    metrics: dict[str, np.ndarray]
    accumulated: dict[str, np.ndarray]
    axes: dict[str, list[str]]
    parameters: np.ndarray
    diverged: np.ndarray
    schedule: records.Schedule | None
    updates: int

    def packed(self) -> dict[str, Any]:
        """The part in plain containers."""
        schedule = None
        if self.schedule is not None:
            arrays, described = self.schedule.packed()
            schedule = [arrays, records.plain(described)]
        return {**self._asdict(), "schedule": schedule}

    @classmethod
    def unpacked(cls, tree: dict[str, Any]) -> "Part":
        """The part that `packed` wrote."""
        schedule = None if tree["schedule"] is None else records.Schedule.unpacked(*tree["schedule"])
        return cls(**{**tree, "schedule": schedule})


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
        before = memory if start is None else start.memory
        whole, method = batch, self.recalling(before) if before else self.method
        if part is not None:
            assert start is not None
            batch, start = part.of(batch, start)
        step = evaluate(method, self.task, self.policy, weights, batch, start, self.also, self.micro_batches)
        step.update, step.elapsed, step.updates_per_version = when.update, when.elapsed, self.updates_per_version
        step.parameters, step.whole = parameters, whole
        if self.policy.truncates:
            step.statistics[OUTSIDE] = step.outside
        nobody = torch.zeros(parameters.shape[0], dtype=torch.bool)
        record, states = self.update.apply(Record(step.gradient, nobody, step, step.reported), states)
        parameters, diverged = advance(parameters, record.direction, diverged, when.update, self.limit, batch.broken)
        if start is None and memory:
            memory = step.method.advantage.behind(step)
        return step, Now(parameters, self.policy.prepare(parameters), states, diverged, memory), record.statistics

    def recalling(self, memory: dict[str, Tensor]) -> Method:
        """The method, whose advantage may remember something."""
        baseline: Any = self.method.advantage
        return self.method.replace(advantage=baseline.recalling(memory)) if memory else self.method

    def begin(self, now: Now, batch: Batch, when: When, cuts: Cuts) -> tuple[Carried, Now]:
        """What updates on the minibatches of a batch share, and where training stands when it is known."""
        method = self.recalling(now.memory)
        whole = Step(method, batch, None, None, self.task, self.policy, now.weights, None, method.outputs)
        whole.update, whole.elapsed, whole.updates_per_version = when.update, when.elapsed, self.updates_per_version
        whole.parameters = now.parameters
        behind = whole.method.advantage.behind(whole) if now.memory else now.memory
        return cuts.begin(whole, now.weights), now._replace(memory=behind)
