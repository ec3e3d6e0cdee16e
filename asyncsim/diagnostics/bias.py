"""Norm of the method's population gradient minus the exact gradient.

|b| = |g(N -> infinity) - grad J(theta)|, both at the weights before the update, data from the batch's own behavior
versions: shape `[R]`, in units of advantage per parameter. Blind to what a finite group adds, such as the factor 1 -
1/N of a group mean (`oracle.moments` has it); NaN in later updates on a batch where ratios refer to the proximal
policy. Needs a task that can be enumerated. Source: textbook.
"""

from __future__ import annotations

from asyncsim import oracle
from asyncsim.diagnostics._diagnostic import Metric

bias = Metric(
    "bias",
    lambda step: (oracle.population(step) - step.exact[1]).norm(dim=-1),
    enumerates=True,
    doc=__doc__,
    subject="policy",
)
