"""Total variance of the method's gradient over all batches, by enumeration.

tr Var g = E |g - E g|^2 over every batch of one group at the batch's behavior version: shape `[R]`, in squared units of
advantage per parameter, NaN in later updates on a batch where ratios refer to the proximal policy. Blind to bias, and
to directions. Needs one group at one version, single numbers as knobs, and at most a million batches. Source: textbook.
"""

from __future__ import annotations

from asyncsim import oracle
from asyncsim.diagnostics._diagnostic import Metric

variance = Metric(
    "variance",
    lambda step: oracle.batch_variance(step),
    outputs=("log_prob",),
    enumerates=True,
    doc=__doc__,
    subject="policy",
)
