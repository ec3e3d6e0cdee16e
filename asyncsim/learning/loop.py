"""The learning loop: one block of replicates from the first batch to the last.

In words: publish when due. Take the batch (drawn at the behavior version of every token). Evaluate the method on it
(outputs, ratio, advantages, cotangents, pullback). Send the direction through the update chain, and add the step. Take
what the batch has about observations into the buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.learning.standing import Standing
from asyncsim.learning.step import carried
from asyncsim.methods._evaluate import evaluate
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy, absorbed
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain, Record, advance


@dataclass(frozen=True)
class Plan:
    """A spec made ready for one block of replicates.

    `source` draws batches, `limit` bounds the finite range, `progress` hears behind every batch where the block stands
    and returns whether to stop there.
    """

    task: Task
    policy: Policy
    method: Method
    update: Chain
    source: Any
    recorder: Recorder
    batches: int
    epochs: int
    batches_per_publish: int
    micro_batches: int
    limit: float
    progress: Callable[[Standing], bool]


def run_block(plan: Plan, at: Standing) -> Standing:
    """Train a block of replicates on from where it stands, and say where it stands then."""
    parameters, states, diverged = at.parameters, at.states, at.diverged
    nobody = torch.zeros(parameters.shape[0], dtype=torch.bool)
    weights = plan.policy.prepare(parameters)
    updates_per_version = plan.batches_per_publish * plan.epochs
    for number in range(at.batch, plan.batches):
        version, since = divmod(number, plan.batches_per_publish)
        if since == 0:
            plan.source.publish(version, weights)
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
        at = Standing(number + 1, parameters, states, diverged)
        if plan.progress(at):
            break
    return at
