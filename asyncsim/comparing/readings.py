"""One number per replicate: what a metric's curve over a run is worth."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import checks, notation
from asyncsim.base.notation import TRAINED
from asyncsim.base.trace import Trace

OVER = ("mean", "end", "time", "reached", "collapse")
LAST = 0.1
"""Share of the recorded updates that the end of a run is averaged over."""
GAIN = 0.1
"""A replicate collapses that had gained this share of its scale and lost more than half of its largest gain."""
RETURNS = ("trained_return", "batch_return", "exact_return", "episode_return")
"""Metrics whose range and best value the task states."""


@dataclass(frozen=True)
class Reading:
    """How a run becomes one number.

    Arguments: `metric`, a name in the trace. `over`: "mean" over updates; "end", the mean over the last tenth; "time",
    the first update at which the metric reaches `target` (all updates where it never does: the restricted mean);
    "reached", whether it does; "collapse", whether the end lies below half of the largest gain, or the replicate left
    the finite range. `target`: in units of the metric, needed by "time" and "reached". `better`: "higher" or "lower"
    values of the metric.

    >>> Reading("trained_return").orientation
    1.0
    """

    metric: str = TRAINED
    over: str = "mean"
    target: float | None = None
    better: str = "higher"

    def __post_init__(self) -> None:
        checks.one_of("over", self.over, OVER, "say what of a curve is compared")
        checks.one_of("better", self.better, ("higher", "lower"), "say which values are good")
        if self.over in ("time", "reached"):
            remedy = f"give the value that the metric has to reach; over={self.over!r} needs it"
            checks.require(self.target is not None, "target", None, "a number", remedy)
            checks.real("target", self.target, remedy)
        else:
            checks.require(self.target is None, "target", self.target, "left out", "use it with over='time'")

    @property
    def orientation(self) -> float:
        """1 where a larger number is better, else -1."""
        own = 1.0 if self.better == "higher" else -1.0
        return {"time": -1.0, "collapse": -1.0, "reached": 1.0}.get(self.over, own)

    @property
    def unit(self) -> str:
        """What a difference is measured in, in words."""
        events = {"time": "updates", "reached": "share of replicates", "collapse": "share of replicates"}
        return events.get(self.over, self.metric)

    def __str__(self) -> str:
        """The reading in words.

        >>> str(Reading("batch_return", "time", 0.9))
        'updates until batch_return (behavior policy) reaches 0.9'
        """
        metric = ", ".join(map(notation.whose, self.metric.split(", ")))
        at = f"{metric} reaches {self.target:g}" if self.target is not None else ""
        return {
            "mean": f"{metric}, mean over updates",
            "end": f"{metric}, mean over the last tenth",
            "time": f"updates until {at}",
            "reached": f"share of replicates in which {at}",
            "collapse": f"share of replicates in which {metric} collapses",
        }[self.over]

    def numbers(self, trace: Trace, lacking: bool = False) -> np.ndarray:
        """One number for each replicate, float64 `[R]`; raises `InputError` where the metric is missing.

        With `lacking` it may be missing in some replicates, whose number is NaN.
        """
        curve = course(trace, self.metric, lacking)
        return np.where(np.isnan(curve).any(0), math.nan, self.of(curve, trace))

    def of(self, curve: np.ndarray, trace: Trace) -> np.ndarray:
        """The same of a curve `[U, R]` that `course` has given."""
        good = curve if self.better == "higher" else -curve
        if self.over == "mean":
            return np.asarray(curve.mean(0))
        if self.over == "end":
            return ending(curve)
        if self.over == "collapse":
            return _collapsed(good, trace.diverged).astype(np.float64)
        aim = float(self.target or 0.0) * (1.0 if self.better == "higher" else -1.0)
        # A value that was filled in before the first one reaches nothing.
        known = np.logical_or.accumulate(~np.isnan(trace.metrics[self.metric]), axis=0)
        there = (good >= aim) & known
        if self.over == "reached":
            return np.asarray(there.any(0), dtype=np.float64)
        return np.where(there.any(0), trace.updates[there.argmax(0)], _length(trace)).astype(np.float64)

    def bounds(self, trace: Trace, task: Any) -> tuple[float, float]:
        """Least and largest number that a replicate can have; infinite where nothing bounds it."""
        if self.over in ("reached", "collapse"):
            return 0.0, 1.0
        if self.over == "time":
            return 0.0, float(_length(trace))
        return self.range(trace, task)

    def range(self, trace: Trace, task: Any) -> tuple[float, float]:
        """Least and largest value of the metric; infinite where nothing bounds it."""
        return task.earnings if self.metric in RETURNS else trace.range(self.metric)


def _length(trace: Trace) -> int:
    """Updates of the run, as its header says, else by its record."""
    stated = (trace.header.get("spec") or {}).get("updates")
    if stated is not None:
        return int(stated)
    every = int(trace.updates[1] - trace.updates[0]) if len(trace.updates) > 1 else 1
    return int(trace.updates[-1]) + every


def course(trace: Trace, metric: str, lacking: bool = False) -> np.ndarray:
    """The curve of a metric `[U, R]`, the last value held where a replicate has left the finite range.

    Between two updates at which it was evaluated it lies on the line through both. Raises `InputError` where the trace
    lacks the metric, or a replicate (with `lacking`: each) never has a value of it.
    """
    remedy = "choose a metric of `asyncsim list metrics`, or one that a link or method of every arm reports"
    checks.one_of("metric", metric, sorted(trace.metrics) or ["none (this run records nothing)"], remedy)
    curve = trace.metrics[metric].astype(np.float64, copy=True)
    if not np.isnan(curve).any():
        return curve
    rows = np.flatnonzero(~np.isnan(curve).all(1))
    for a, b in itertools.pairwise(rows):
        share = (np.arange(a + 1, b) - a)[:, None] / (b - a)
        curve[a + 1 : b] = (1.0 - share) * curve[a] + share * curve[b]
    for row in range(1, len(curve)):
        curve[row] = np.where(np.isnan(curve[row]), curve[row - 1], curve[row])
    for row in range(len(curve) - 2, -1, -1):
        curve[row] = np.where(np.isnan(curve[row]), curve[row + 1], curve[row])
    empty = int(np.isnan(curve).any(0).sum())
    enough = empty < curve.shape[1] if lacking else empty == 0
    remedy = "choose a metric that is defined in every replicate"
    checks.require(enough, f"replicates without {metric}", empty, "0", remedy)
    return curve


def ending(curve: np.ndarray) -> np.ndarray:
    """Mean over the last tenth of the recorded updates, `[R]`."""
    return np.asarray(curve[-max(1, round(LAST * len(curve))) :].mean(0))


def _collapsed(curve: np.ndarray, diverged: np.ndarray) -> np.ndarray:
    gain = curve.max(0) - curve[0]
    # Of the replicate alone: a number must not depend on which others ran beside it.
    scale = np.maximum(np.abs(curve).max(0), math.ulp(1.0))
    lost = (gain > GAIN * scale) & (ending(curve) < curve[0] + 0.5 * gain)
    return lost | (diverged >= 0)
