"""Norm of the method's population gradient minus the exact gradient."""

from __future__ import annotations

from asyncsim import oracle
from asyncsim.diagnostics._diagnostic import Metric

bias = Metric("bias", lambda step: (oracle.population(step.signal) - step.exact[1]).norm(dim=-1), enumerates=True)
