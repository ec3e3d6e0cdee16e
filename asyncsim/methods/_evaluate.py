"""From a method and a batch to the step and its ascent direction."""

from __future__ import annotations

from asyncsim.base import checks
from asyncsim.methods import _parts
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Carried, Step
from asyncsim.step.versions import Weights
from asyncsim.tasks._task import Task


def evaluate(
    method: Method,
    task: Task,
    policy: Policy,
    weights: Weights,
    batch: Batch,
    start: Carried | None = None,
    also: tuple[str, ...] = (),
    micro_batches: int = 1,
) -> Step:
    """The step of a method on a batch, with its ascent direction `[R, P]` as `gradient`.

    `weights` are the current ones; only the pullback itself may be at others (`at="behavior"`). `start`: what the first
    update on the batch has left (None: this is the first); `also` names further outputs to compute; `micro_batches`, in
    how many passes the policy does it.
    """
    view = {"current": versions.current(weights), "behavior": batch.view}[method.at]
    if view is None:
        raise checks.InputError(
            "at", method.at, "current with early drawing", "use drawing='late', which keeps weights"
        )
    names = (*method.outputs, *(name for name in also if name not in method.outputs))
    at_current = method.at == "current"
    forward = _parts.forward(policy, view, batch, names if at_current else (), micro_batches)
    step = Step(method, batch, forward.outputs if at_current else None, start, task, policy, weights, view, names)
    step.gradient = forward.pullback(step.cotangents)
    return step
