"""What is refused before anything trains: metrics that no run has, and targets that say nothing."""

from __future__ import annotations

import difflib
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from asyncsim.base import checks, plugins
from asyncsim.base.trace import Trace
from asyncsim.comparing.arms import content
from asyncsim.comparing.readings import Reading
from asyncsim.comparing.tuning import spread
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.running import run
from asyncsim.running.spec import Spec

PROBED = 8
"""Replicates whose first update shows what a spec reports, and where it starts."""


def recorded(metric: Any) -> tuple[tuple[Any, ...], str]:
    """The diagnostics that are needed, none where a link or method reports the number, and its name in the trace."""
    if not isinstance(metric, str):
        return (metric,), str(getattr(metric, "name", metric))
    return ((metric,) if metric in plugins.summaries("asyncsim.diagnostics") else ()), metric


def refuse(readings: Sequence[Reading], specs: Iterable[tuple[str, Spec]]) -> None:
    """Refuse, by `InputError`, a metric that a spec does not have, and a target that it meets at once, or never can.

    One update of a few replicates tells, of specs that differ in task, policy, method or links. It is made only where
    there is a target, or where a link or method has to report the metric, since no diagnostic has its name. `specs`:
    each behind what messages call it, with the diagnostics that it records.
    """
    asked, seen = [each for each in readings if each.target is not None or not _known(each.metric)], []
    for name, spec in specs if asked else ():
        parts = content((spec.task, spec.policy, spec.method, spec.update, spec.initial))
        if parts in seen:
            continue
        seen.append(parts)
        few = spec.replace(updates=spec.passes, every=1, replicates=PROBED, block=None, realizations=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", checks.ShortRunWarning)
            trace = run(spread(few), progress=False)
        for reading in asked:
            listed = [*plugins.summaries("asyncsim.diagnostics"), *trace.metrics]
            near = difflib.get_close_matches(reading.metric, listed, 1)
            hint = f"did you mean {near[0]}?" if near else "see `asyncsim list metrics`"
            bound = f"a diagnostic, or a number that a link or method of {name} reports"
            checks.require(reading.metric in trace.metrics, "metric", reading.metric, bound, hint)
            if reading.target is not None:
                _refuse_target(reading, reading.target, name, trace, spec)


def _known(metric: str) -> bool:
    """Whether a diagnostic has this name; one that gathers over a whole run, without a curve, is refused."""
    if metric not in plugins.summaries("asyncsim.diagnostics"):
        return False
    curve = isinstance(plugins.load("asyncsim.diagnostics", metric, "metric")(), Metric)
    checks.require(curve, "metric", metric, "a number for every update", "read it of sim.run's trace.accumulated")
    return True


def _refuse_target(reading: Reading, target: float, name: str, trace: Trace, spec: Spec) -> None:
    higher, first = reading.better == "higher", trace.metrics[reading.metric][0]
    start = float(first[np.isfinite(first)].mean()) if np.isfinite(first).any() else math.nan
    met = start >= target if higher else start <= target
    bound = f"{'above' if higher else 'below'} {start:.6g}, where {reading.metric} of {name} is before training"
    other = "lower" if higher else "higher"
    checks.require(not met, "target", target, bound, f"give a value that has to be learned, or better={other!r}")
    low, high = reading.range(trace, spec.fitted_task)
    bound = f"in [{low:g}, {high:g}], the range of {reading.metric}"
    checks.require(low <= target <= high, "target", target, bound, "give a value that can be reached")
