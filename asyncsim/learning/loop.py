"""The learning loop: one block of replicates from the first batch to the last.

In words: take the batch (drawn at the behavior version of every token). Evaluate the method on it (outputs, ratio,
advantages, cotangents, pullback). Send the direction through the update chain, and add the step. Take what the batch
has about observations into the buffers. Publish when due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.learning.step import carried
from asyncsim.methods._evaluate import evaluate
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy, absorbed
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain, Record, advance


@dataclass(frozen=True)
class Plan:
    """A spec made ready for one block of replicates.

    `source` draws batches, `limit` bounds the finite range, `progress` gets every batch's updates and returns whether
    to stop behind it.
    """

    task: Task
    policy: Policy
    method: Method
    update: Chain
    source: Any
    recorder: Recorder
    initial: Tensor
    batches: int
    epochs: int
    batches_per_publish: int
    micro_batches: int
    limit: float
    progress: Callable[[int], bool]


def run_block(plan: Plan) -> tuple[Tensor, Tensor]:
    """Final parameters `[R, P]`, and the update at which each replicate left the finite range (-1: never), `[R]`."""
    parameters, states = plan.initial, plan.update.init(plan.initial)
    diverged = torch.full(parameters.shape[:1], -1)
    nobody = torch.zeros(parameters.shape[0], dtype=torch.bool)
    weights = plan.policy.prepare(parameters)
    plan.source.publish(0, weights)
    updates_per_version = plan.batches_per_publish * plan.epochs
    for number in range(plan.batches):
        version, since = divmod(number, plan.batches_per_publish)
        batch = plan.source.take(number, version)
        step = None
        for epoch in range(plan.epochs):
            also = plan.recorder.outputs
            step = evaluate(
                plan.method, plan.task, plan.policy, weights, batch, carried(step), also, plan.micro_batches
            )
            step.update, step.parameters = number * plan.epochs + epoch, parameters
            step.updates_per_version, step.elapsed = updates_per_version, since * plan.epochs + epoch
            record, states = plan.update.apply(Record(step.gradient, nobody, step, step.reported), states)
            parameters, diverged = advance(
                parameters, record.direction, diverged, step.update, plan.limit, batch.broken
            )
            plan.recorder.observe(step, record.statistics, diverged < 0)
            weights = plan.policy.prepare(parameters)
        parameters, weights = absorbed(plan.policy, parameters, weights, batch, diverged < 0)
        for published in range(version + 1, (number + 1) // plan.batches_per_publish + 1):
            plan.source.publish(published, weights)
        if plan.progress(plan.epochs):
            break
    return parameters, diverged
