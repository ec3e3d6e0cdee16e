"""The learning loop, which trains one block of replicates from the first batch to the last.

In words: publish when due. Take a batch (drawn at the behavior version of every token). Evaluate the method on it, or
on one minibatch after another (outputs, ratio, advantages, cotangents, pullback). Pass the direction through the update
chain, and add the step. Update the statistics of observations from the batch.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from asyncsim.base import stopping
from asyncsim.diagnostics._diagnostic import Recorder
from asyncsim.policies._policy import Policy, absorbed
from asyncsim.running.updating import Now, Standing, When
from asyncsim.step.minibatches import Cuts, Minibatch
from asyncsim.step.step import carried


@dataclass(frozen=True)
class Plan:
    """Everything that the training loop needs for one block of replicates, prepared from a spec.

    `source` draws batches. `update` makes one update (an `Updater`, or the same as a program). `cuts` makes
    minibatches; None: updates are on entire batches. `progress` receives the block's state after every batch, and
    returns whether to stop.
    """

    policy: Policy
    update: Any
    source: Any
    recorder: Recorder
    batches: int
    epochs: int
    cuts: Cuts | None
    batches_per_publish: int
    progress: Callable[[Standing], bool]

    @property
    def passes(self) -> int:
        """Number of updates on each batch: epochs times minibatches."""
        return self.epochs * (1 if self.cuts is None else self.cuts.count)


def run_block(plan: Plan, at: Standing) -> Standing:
    """Train a block of replicates from a state on, and return its last state, before any unfinished batch."""
    now = Now(at.parameters, at.weights or plan.policy.prepare(at.parameters), at.states, at.diverged)
    with suppress(stopping.Unfinished):
        for number in range(at.batch, plan.batches):
            version, since = divmod(number, plan.batches_per_publish)
            if since == 0:
                plan.source.publish(version, now.weights)
            batch = plan.source.take(number, version)
            parts: Iterable[Minibatch | None] = [None] * plan.epochs
            step, start, made = None, None, When(number * plan.passes, since * plan.passes)
            if plan.cuts is not None:
                parts = plan.cuts.of(number, plan.epochs, batch)
                start = plan.update.begin(now, batch, made, plan.cuts)
            for k, part in enumerate(parts):
                when = When(made.update + k, made.elapsed + k)
                step, now, statistics = plan.update(now, batch, start or carried(step), when, part)
                plan.recorder.observe(step, statistics, now.diverged)
            parameters, weights = absorbed(plan.policy, now.parameters, now.weights, batch, now.diverged)
            now = now._replace(parameters=parameters, weights=weights)
            kept = now.weights if plan.update.own_bits else None
            at = Standing(number + 1, now.parameters, now.states, now.diverged, kept)
            if plan.progress(at):
                break
    return at
