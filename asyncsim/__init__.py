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
        parts = {each: kind for kind in plugins.PARTS for each in plugins.summaries(f"asyncsim.{kind}")}
        near = checks.near(name, [*PACKAGES, *NAMES], 1, 0.7) or checks.near(name, parts, 1, 0.8)
        place = ".".join(filter(None, ["sim", parts.get(near[0]), near[0]])) if near else ""
        hint = f"did you mean {place}?" if near else "see dir(asyncsim)"
        if near and parts.get(near[0]) == "diagnostics":
            hint = f"write sim.Spec(..., diagnostics=[{near[0]!r}]), then sim.run(spec)[{near[0]!r}]"
        hint = calls.ELSEWHERE.get(f"sim {name}", hint)
        raise calls.unknown_name(f"asyncsim has no {name!r}; {hint}")
    module = _importlib.import_module(NAMES[name])
    return module if NAMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*PACKAGES, *NAMES})
