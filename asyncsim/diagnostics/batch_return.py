"""Mean reward of the batch, under the behavior policy.

J_batch = E r_i over the batch's samples by mass, with the penalty of a task as the advantage sees it: shape `[R]`, in
units of reward. Groups that the method drops count too: they are dropped by their reward, and the rest would be biased.
Blind to the policy being trained, since it lags behind it by the staleness; see `exact_return`. Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric

batch_return = Metric(
    "batch_return",
    lambda step: step.batch_mean(step.task.reward(step.batch, step.current)),
    outputs=("log_prob",),
    default=True,
    doc=__doc__,
    subject="batch",
)
