"""Alarms of the question, and medians with intervals; when a run has collapsed, `asyncsim.diagnosing.alarms` says.

Axes: `U` updates, `R` replicates. Everything that an alarm reads at update t was known at update t.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from asyncsim.diagnosing import Signal
from asyncsim.diagnosing.alarms import Course

PAST = 40
"""Updates before the window with which a sudden change compares it."""
SIGNALS = {
    "ess": Signal("ess", low=True, log=True),
    "ess_drop": Signal("ess", low=True, log=True, past=PAST),
    "norm": Signal("gradient_norm", log=True, over="largest"),
    "norm_mean": Signal("gradient_norm", log=True),
    "share": Signal("max_weight_share"),
    "weight": Signal("mean_weight", low=True),
    "kl": Signal("kl"),
    "cosine": Signal("gradient_cosine"),
    "return": Signal("return", low=True),
}
"""Alarms, each fixed before anything was measured."""


def statistics(metrics: dict[str, np.ndarray], returns: np.ndarray) -> dict[str, np.ndarray]:
    """Alarm statistics `[U, R]`, larger meaning more alarming."""
    return {name: signal({**metrics, "return": returns}) for name, signal in SIGNALS.items()}


def at(values: np.ndarray, runs: np.ndarray, times: np.ndarray, lead: int) -> np.ndarray:
    """A statistic of runs `[m]` so long before the last update ahead of their times `[m]` or `[draws, m]`."""
    return values[times - 1 - lead, runs]


def only(found: Course, among: np.ndarray) -> Course:
    """The courses of these runs, all others counting as if they had never learned."""
    return Course(np.where(among, found.learned, -1), np.where(among, found.collapsed, -1), found.recovered & among)


def median(values: np.ndarray, false_fail: float = 0.05) -> tuple[float, float, float]:
    """Median with the interval of order statistics that holds it whatever the law; infinite values allowed."""
    ordered = np.sort(values)
    lowest = int(stats.binom.ppf(false_fail / 2.0, len(ordered), 0.5))
    low = ordered[lowest - 1] if lowest >= 1 else -np.inf
    high = ordered[len(ordered) - lowest] if lowest >= 1 else np.inf
    return float(np.quantile(ordered, 0.5, method="inverted_cdf")), float(low), float(high)
