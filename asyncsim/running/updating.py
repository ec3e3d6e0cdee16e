"""One update, from the state of training and a batch to the next state; and the results of a block."""

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
    """State of a block before its next batch, in addition to the states of feed, source and recorder.

    `batch`: its number; `parameters` `[R, P]`; `states` of the update chain's links; `diverged` `[R]`: the update at
    which a replicate left the finite range (-1: never). `weights`: published weights, if a program made them, since
    tensors would give other last bits; else None.
    """

    batch: int
    parameters: Tensor
    states: list[Any]
    diverged: Tensor
    weights: Any = None


class Part(NamedTuple):
    """Results of one block of replicates, with the number of its updates.

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
        """Results of a block in plain containers."""
        schedule = None
        if self.schedule is not None:
            arrays, described = self.schedule.packed()
            schedule = [arrays, records.plain(described)]
        return {**self._asdict(), "schedule": schedule}

    @classmethod
    def unpacked(cls, tree: dict[str, Any]) -> "Part":
        """Restore the block results that `packed` returned."""
        schedule = None if tree["schedule"] is None else records.Schedule.unpacked(*tree["schedule"])
        return cls(**{**tree, "schedule": schedule})


class Now(NamedTuple):
    """State that an update changes; `diverged` `[R]`: the update at which a replicate left the finite range, or -1."""

    parameters: Tensor
    weights: Weights
    states: list[Any]
    diverged: Tensor


class When(NamedTuple):
    """Index of an update, and updates since the trained version was published; tensors in a compiled program."""

    update: Any
    elapsed: Any


@dataclass(frozen=True)
class Updater:
    """Computes updates; `also` names outputs that metrics read, `limit` bounds the finite range of parameters."""

    task: Task
    policy: Policy
    method: Method
    update: Chain
    also: tuple[str, ...]
    updates_per_version: int
    micro_batches: int
    limit: float
    own_bits: ClassVar[bool] = False
    """Whether published weights differ in last bits from those of `policy.prepare`."""

    def __call__(
        self, now: Now, batch: Batch, start: Carried | None, when: When, part: Minibatch | None = None
    ) -> tuple[Step, Now, dict[str, Tensor]]:
        """Update on a batch or a part of it: the step, the new state, and numbers `[R]` of the chain."""
        parameters, weights, states, diverged = now
        whole = batch
        if part is not None:
            assert start is not None
            batch, start = part.of(batch, start)
        step = evaluate(self.method, self.task, self.policy, weights, batch, start, self.also, self.micro_batches)
        step.update, step.elapsed, step.updates_per_version = when.update, when.elapsed, self.updates_per_version
        step.parameters, step.whole = parameters, whole
        if self.policy.truncates:
            step.statistics[OUTSIDE] = step.outside
        nobody = torch.zeros(parameters.shape[0], dtype=torch.bool)
        record, states = self.update.apply(Record(step.gradient, nobody, step, step.reported), states)
        parameters, diverged = advance(parameters, record.direction, diverged, when.update, self.limit, batch.broken)
        return step, Now(parameters, self.policy.prepare(parameters), states, diverged), record.statistics

    def begin(self, now: Now, batch: Batch, when: When, cuts: Cuts) -> Carried:
        """Values that all updates on a batch's minibatches share, computed before the first of them."""
        whole = Step(self.method, batch, None, None, self.task, self.policy, now.weights, None, self.method.outputs)
        whole.update, whole.elapsed, whole.updates_per_version = when.update, when.elapsed, self.updates_per_version
        whole.parameters = now.parameters
        return cuts.begin(whole, now.weights)
