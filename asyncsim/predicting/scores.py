"""One score a run, read before its reference time, and what scores of two kinds of runs are worth as an alarm.

Axes: `U` recorded updates, `R` replicates, `n` runs that collapse, `m` others, whose times may be drawn several times.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate


def at(values: np.ndarray, runs: np.ndarray, times: np.ndarray, lead: int) -> np.ndarray:
    """A statistic of runs `[m]` so long before the last update ahead of their times `[m]` or `[draws, m]`."""
    return values[times - 1 - lead, runs]


def watched(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int) -> np.ndarray:
    """A statistic in the `watch` updates before the reference times, the last axis."""
    return values[times[..., None] - watch + np.arange(watch), runs[:, None]]


def worst(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int | None, lead: int = 0) -> np.ndarray:
    """Largest value of a statistic in the `watch` updates up to `lead` before the reference times: one score a run.

    Without a watch all updates from the first one on count, so that scores of later times are maxima of more numbers.
    """
    if watch is None:
        return np.fmax.accumulate(values, axis=0)[times - 1 - lead, runs]
    return watched(values, runs, times - lead, watch - lead).max(axis=-1)


def announced(
    values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int | None, threshold: float
) -> np.ndarray:
    """Updates between the first alarm of the watch and the reference time; -1 where there was none."""
    if watch is None:
        first = (np.fmax.accumulate(values, axis=0) <= threshold).sum(axis=0)[runs]
        return np.where(first < times, times - first, -1)
    alarm = watched(values, runs, times, watch) > threshold
    return np.where(alarm.any(axis=-1), watch - alarm.argmax(axis=-1), -1)


def auc(cases: np.ndarray, controls: np.ndarray) -> Estimate:
    """Probability that a case scores above a control, ties counted half; cases `[n]`, controls `[m]` or `[draws, m]`.

    The error is that of a two-sample U statistic (DeLong 1988): of the mean placement of cases among controls and of
    controls among cases, added in squares; over several draws of the same controls placements are averaged first.
    Where no score is out of place it would be 0, and the bound A (1 - A) / min(n) at one half of a pair misplaced
    stands in.
    """
    own = stats.rankdata(cases)
    drawn, n, m = np.atleast_2d(controls), len(cases), np.shape(controls)[-1]
    ranks = stats.rankdata(np.hstack([np.tile(cases, (len(drawn), 1)), drawn]), axis=1)
    above = ((ranks[:, :n] - own) / m).mean(axis=0)
    below = (1.0 - (ranks[:, n:] - stats.rankdata(drawn, axis=1)) / n).mean(axis=0)
    value = float(above.mean())
    error = math.hypot(uncertainty.between(above).error, uncertainty.between(below).error)
    least = 0.5 / (n * m)
    # Placements that are all the same leave rounding, not 0; the least spread that they can have is above 1/(n m)^2.
    if error < 1e-9 / (n * m):
        error = math.sqrt(least * (1.0 - least) / min(n, m))
    return Estimate(value, error, min(n, m) - 1.0, samples=n + m)


def roc(cases: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Shares of controls and of cases with an alarm at every level, from none to all: `[K, 2]`, ties in one step."""
    levels = np.unique(np.concatenate([np.ravel(cases), np.ravel(controls)]))
    shares = [
        1.0 - np.searchsorted(np.sort(np.ravel(side)), levels, side="left") / np.size(side)
        for side in (controls, cases)
    ]
    return np.vstack([[0.0, 0.0], np.stack(shares, axis=1)[::-1]])


def threshold(scores: np.ndarray, rate: float) -> float:
    """Level that the share `rate` of healthy scores exceeds."""
    return float(np.quantile(scores, 1.0 - rate, method="higher"))


def halves(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the runs that set a threshold and of those that are reported: even and odd replicates."""
    return runs % 2 == 0, runs % 2 == 1


def precision(detections: Estimate, alarms: Estimate, share: float) -> Estimate:
    """Share of alarms that are right where the share `share` of runs collapses: s d / (s d + (1 - s) f).

    d of collapses and f of other runs raise one. The error is linear in those of d and f; NaN where there is no alarm.
    """
    right, wrong = share * detections.value, (1.0 - share) * alarms.value
    total = right + wrong
    if total == 0.0:
        return Estimate(math.nan, math.inf, samples=detections.samples + alarms.samples)
    slopes = share * wrong / total**2, (1.0 - share) * right / total**2
    error = math.hypot(slopes[0] * detections.error, slopes[1] * alarms.error)
    return Estimate(right / total, error, samples=detections.samples + alarms.samples)
