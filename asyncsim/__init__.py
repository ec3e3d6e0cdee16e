"""asyncsim: a laboratory for asynchronous policy-gradient learning.

Describe a system, train real policies on its staleness over thousands of replicates, and see every measurement beside
its analytical prediction. Names below are loaded when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

__version__ = "0.2.0"

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
    "rewards",
    "diagnostics",
    "claims",
    "conformance",
    "live",
    "diagnosing",
    "testing",
)
"""Subpackages reached as attributes: `sim.tasks.softmax_bandit()`."""

NAMES = {
    "Spec": "asyncsim.running.spec",
    "Trace": "asyncsim.base.trace",
    "Schedule": "asyncsim.base.records",
    "Timeline": "asyncsim.base.records",
    "Estimate": "asyncsim.base.records",
    "Verdict": "asyncsim.base.records",
    "InputError": "asyncsim.base.checks",
    "run": "asyncsim.running.running",
    "Interrupted": "asyncsim.running.running",
    "callbacks": "asyncsim.running.callbacks",
    "evaluate": "asyncsim.running.evaluating",
    "compare": "asyncsim.comparing",
    "power": "asyncsim.comparing",
    "predict": "asyncsim.diagnosing",
    "Signal": "asyncsim.diagnosing",
    "diagnose": "asyncsim.diagnosing",
    "Diagnosis": "asyncsim.diagnosing",
    "sweep": "asyncsim.sweeping",
    "boundary": "asyncsim.sweeping",
    "advise": "asyncsim.sweeping",
    "verify": "asyncsim.app.verifying",
    "judge": "asyncsim.validation",
    "export_loss": "asyncsim.exporting.exports",
    "export_link": "asyncsim.exporting.exports",
    "plot": "asyncsim.plotting",
    "points": "asyncsim.plotting",
    "chain": "asyncsim.updates._link",
    "constant": "asyncsim.base.laws",
    "exponential": "asyncsim.base.laws",
    "lognormal": "asyncsim.base.laws",
    "pareto": "asyncsim.base.laws",
    "gamma": "asyncsim.base.laws",
    "empirical": "asyncsim.base.laws",
    "uniform": "asyncsim.base.laws",
    "oracle": "asyncsim.sampling.oracle",
    "ratios": "asyncsim.step.ratios",
    "uncertainty": "asyncsim.base.uncertainty",
    "laws": "asyncsim.base.laws",
}
"""Public names and the module that defines each."""


def __getattr__(name: str) -> _Any:
    if name in PACKAGES:
        return _importlib.import_module(f"asyncsim.{name}")
    if name not in NAMES:
        from asyncsim.base import checks, plugins

        if name.startswith("_"):
            raise AttributeError(name)
        parts = {each: kind for kind in plugins.PARTS for each in plugins.summaries(f"asyncsim.{kind}")}
        near = checks.near(name, [*parts, *PACKAGES, *NAMES])
        place = ".".join(filter(None, ["sim", parts.get(near[0]), near[0]])) if near else ""
        hint = f"did you mean {place}?" if near else "see dir(asyncsim)"
        raise AttributeError(f"asyncsim has no {name!r}; {hint}")
    module = _importlib.import_module(NAMES[name])
    return module if NAMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*PACKAGES, *NAMES})
