"""Mean entropy of the current policy at the batch's states.

H = E mean_t (-sum_a pi(a|s_it) log pi(a|s_it)), over the tokens of each sample, then over samples by mass: shape `[R]`,
in nats per token. Blind to the states that the current policy would visit, since these are the behavior policy's.
Source: textbook.
"""

from __future__ import annotations

from asyncsim.diagnostics._diagnostic import Metric, token_average

entropy = Metric(
    "entropy",
    lambda step: step.mean(token_average(step, step.current["entropy"])),
    outputs=("entropy",),
    default=True,
    doc=__doc__,
)
