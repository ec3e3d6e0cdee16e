"""Alarms as objects: which metric is read, over how many updates, and which way is alarming.

Axes: `U` recorded updates, `R` replicates.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import checks

WINDOW = 10
"""Recorded updates over which returns and statistics are averaged, the present one the last."""
OVER = ("mean", "largest", "smallest")
TINY = 1e-12
"""Least number whose logarithm is taken."""


def trailing(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Mean of the last `width` numbers, `[U, R]`; of fewer at the start. What is missing counts for nothing."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    # Not a difference of running sums: one huge number would leave its rounding in all later means.
    for shift in range(min(width, len(values))):
        total[shift:] += filled[: len(values) - shift]
        count[shift:] += known[: len(values) - shift]
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def largest(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Largest of the last `width` numbers, `[U, R]`; what is missing is never the largest."""
    padded = np.vstack([np.full((width - 1, values.shape[1]), -np.inf), np.where(np.isnan(values), -np.inf, values)])
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=0).max(axis=-1)


@dataclass(frozen=True)
class Signal:
    """A causal statistic of one metric, larger meaning more alarming.

    s_t = +-F(x_(t-w+1), ..., x_t), F the mean, the largest or the smallest of the last w = `window` numbers; with
    `past` > 0 the mean of the `past` numbers before the window is subtracted, so that a change counts and not a level.
    The smallest of k numbers exceeds a level where k updates in a row do.

    Arguments: `metric`, its name in the trace or log. `low`: small values are alarming (the sign is -). `log`: of its
    logarithm. `over`: F of what the sign and the logarithm leave. `window` >= 1 and `past` >= 0, in recorded updates.
    Called with a mapping of metrics `[U, R]` it returns `[U, R]`: -inf where a number is missing, which raises no
    alarm. Raises `InputError` for other settings or a missing metric. Assumes that row t was known at update t.
    Source: this package.

    >>> Signal("x", low=True, window=2)({"x": np.array([[1.0], [3.0], [0.0]])})[:, 0].tolist()
    [-1.0, -2.0, -1.5]
    """

    metric: str
    low: bool = False
    log: bool = False
    over: str = "mean"
    window: int = WINDOW
    past: int = 0

    def __post_init__(self) -> None:
        checks.require(isinstance(self.metric, str), "metric", self.metric, "a name", "name a metric of the trace")
        checks.one_of("over", self.over, OVER, "say what is read of the window")
        checks.integer("window", self.window, 1, "count recorded updates")
        checks.integer("past", self.past, 0, "count recorded updates before the window")

    def __call__(self, metrics: Mapping[str, np.ndarray]) -> np.ndarray:
        """s `[U, R]`."""
        checks.one_of("metric", self.metric, metrics, "record it with Spec(diagnostics=[...])")
        values = np.asarray(metrics[self.metric], dtype=np.float64)
        if self.log:
            # NaN stays: a number that is missing is not a small one.
            values = np.log(np.maximum(values, TINY))
        signed = -values if self.low else values
        if self.over == "mean":
            score = trailing(signed, self.window)
        elif self.over == "largest":
            score = largest(signed, self.window)
        else:
            # A whole window, or no alarm: fewer numbers would be exceeded together more often.
            score = -largest(np.where(np.isnan(signed), np.inf, -signed), self.window)
            score[: self.window - 1] = -np.inf
        if self.past:
            padding = np.full((min(self.window, len(signed)), signed.shape[1]), np.nan)
            before = np.vstack([padding, trailing(signed, self.past)])[: len(signed)]
            score = score - before
        return np.where(np.isnan(score), -np.inf, score)


COMMON = {
    "ess": functools.partial(Signal, "ess", low=True, log=True),
    "gradient_norm": functools.partial(Signal, "gradient_norm", log=True, over="largest"),
    "mean_weight": functools.partial(Signal, "mean_weight", low=True),
    **{name: functools.partial(Signal, name, low=True) for name in ("trained_return", "batch_return", "exact_return")},
}
"""How metrics are read that are named only; all others by their mean, large being alarming."""


def signal_of(given: Any, window: int = WINDOW) -> Signal:
    """The signal itself, or that of a metric's name. Raises `InputError` for anything else."""
    if isinstance(given, Signal):
        return given
    checks.require(isinstance(given, str), "signal", given, "a metric's name or a Signal", "name a metric of the trace")
    return COMMON.get(given, functools.partial(Signal, given))(window=window)
