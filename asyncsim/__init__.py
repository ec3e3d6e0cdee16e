"""asyncsim: a laboratory for asynchronous policy-gradient learning.

Describe a system, train real policies on its staleness over thousands of replicates, and see every measurement beside
its analytical prediction. Names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

PACKAGES = (
    "systems",
    "schedules",
    "tasks",
    "policies",
    "advantages",
    "methods",
    "factors",
    "penalties",
    "updates",
    "diagnostics",
    "theory",
    "trials",
    "conformance",
)
"""Subpackages reached as attributes: `sim.tasks.softmax_bandit()`."""

NAMES = {
    "Spec": "asyncsim.spec",
    "Trace": "asyncsim.trace",
    "Schedule": "asyncsim.records",
    "Timeline": "asyncsim.records",
    "Estimate": "asyncsim.records",
    "Verdict": "asyncsim.records",
    "InputError": "asyncsim.checks",
    "run": "asyncsim.running",
    "Interrupted": "asyncsim.running",
    "verify": "asyncsim.verifying",
    "judge": "asyncsim.validation",
    "plot": "asyncsim.plotting",
    "points": "asyncsim.plotting",
    "chain": "asyncsim.updates._link",
    "constant": "asyncsim.laws",
    "exponential": "asyncsim.laws",
    "lognormal": "asyncsim.laws",
    "pareto": "asyncsim.laws",
    "gamma": "asyncsim.laws",
    "empirical": "asyncsim.laws",
    "uniform": "asyncsim.laws",
    "oracle": "asyncsim.oracle",
}
"""Public names and the module that defines each."""


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return importlib.import_module(f"asyncsim.{name}")
    if name not in NAMES:
        raise AttributeError(f"asyncsim has no {name!r}; see dir(asyncsim)")
    module = importlib.import_module(NAMES[name])
    return module if NAMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*PACKAGES, *NAMES})
