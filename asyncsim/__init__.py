"""asyncsim: a laboratory for asynchronous policy-gradient learning.

Describe a system, train real policies on its staleness over thousands of replicates, and see every measurement beside
its analytical prediction. Names below are loaded when they are first used.
"""

import importlib as _importlib
from typing import Any as _Any

__version__ = "0.2.0"

PACKAGES = (
    *("systems", "schedules", "tasks", "policies", "advantages", "methods", "factors", "penalties", "updates"),
    *("rewards", "diagnostics", "claims", "conformance", "live", "diagnosing", "testing"),
)
"""Subpackages reached as attributes: `sim.tasks.softmax_bandit()`."""

_HOMES = {
    "running.spec": "Spec",
    "base.trace": "Trace",
    "base.records": "Schedule Timeline Estimate Verdict",
    "base.checks": "InputError",
    "running.running": "run Interrupted",
    "running.callbacks": "callbacks",
    "running.evaluating": "evaluate",
    "comparing": "compare power",
    "diagnosing": "predict Signal diagnose Diagnosis judge_runs",
    "sweeping": "sweep stored boundary advise",
    "forecasting": "calibrate forecast",
    "exporting.exports": "export_loss export_link",
    "app.verifying": "verify",
    "validation": "judge",
    "plotting": "plot",
    "plotting._metrics": "points",
    "updates._link": "chain",
    "base.laws": "constant exponential lognormal pareto gamma empirical uniform laws",
    "sampling.oracle": "oracle",
    "step.ratios": "ratios",
    "base.uncertainty": "uncertainty",
}
NAMES = {name: f"asyncsim.{home}" for home, names in _HOMES.items() for name in names.split()}
"""Public names and the module that defines each."""


def __getattr__(name: str) -> _Any:
    if name in PACKAGES:
        return _importlib.import_module(f"asyncsim.{name}")
    if name not in NAMES:
        from asyncsim.base import calls, checks, plugins

        if name.startswith("_"):
            raise AttributeError(name)
        hint = checks.advice(name, "sim") or plugins.called(name, [*PACKAGES, *NAMES])
        raise calls.unknown_name("asyncsim", name, hint or f"it has {', '.join([*NAMES, *PACKAGES])}")
    if NAMES[name].endswith(f".{name}"):
        from asyncsim.base import plugins

        return plugins.public(NAMES[name])
    from asyncsim.base import calls

    return calls.answering(getattr(_importlib.import_module(NAMES[name]), name))


def __dir__() -> list[str]:
    return sorted({*PACKAGES, *NAMES})
