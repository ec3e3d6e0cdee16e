"""Total variance of the method's gradient over all batches, by enumeration."""

from __future__ import annotations

from asyncsim import oracle
from asyncsim.diagnostics._diagnostic import Metric

variance = Metric("variance", lambda step: oracle.batch_variance(step.signal), enumerates=True)
