"""When a run has collapsed, what an alarm may look at, and how alarms are compared: at matched times.

Axes: `U` updates, `R` replicates. Everything that an alarm reads at update t was known at update t.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate

WINDOW = 10
"""Updates over which returns and statistics are averaged, the present one the last."""
PAST = 40
"""Updates before the window with which a sudden change compares it."""
DRAWS = 20
"""Times that each control is given: results are means over them, as a single draw moves an area by some 0.02."""


class Course(NamedTuple):
    """What became of each run: `learned`, first update whose trailing mean return gained half of what there is to gain
    (-1: never); `collapsed`, first update from which it stays below half of its own largest gain (-1: never);
    `recovered`, whether it was there and came back. All `[R]`."""

    learned: np.ndarray
    collapsed: np.ndarray
    recovered: np.ndarray


class Matched(NamedTuple):
    """Runs to be told apart: indices `[n]` and reference updates `[n]` of those that collapse there, indices `[m]` of
    others that do not, and their updates `[draws, m]`."""

    cases: np.ndarray
    case_times: np.ndarray
    controls: np.ndarray
    control_times: np.ndarray


def trailing(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Mean of the last `width` numbers, `[U, R]`; of fewer at the start. What is missing counts for nothing."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    # Not a difference of running sums: one huge number would leave its rounding in all later means.
    for shift in range(width):
        total[shift:] += filled[: len(values) - shift]
        count[shift:] += known[: len(values) - shift]
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def largest(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Largest of the last `width` numbers, `[U, R]`."""
    padded = np.vstack([np.full((width - 1, values.shape[1]), -np.inf), np.nan_to_num(values, nan=-np.inf)])
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=0).max(axis=-1)


def course(returns: np.ndarray, start: float, best: float) -> Course:
    """What became of each run, from its returns `[U, R]`, the return `start` of the initial policy and the best one."""
    mean = trailing(returns)
    peak = np.maximum.accumulate(mean, axis=0)
    above = mean >= start + 0.5 * (best - start)
    learned = np.where(above.any(axis=0), above.argmax(axis=0), -1)
    low = (mean < start + 0.5 * (peak - start)) & (np.arange(len(mean))[:, None] > learned) & (learned >= 0)
    # The update after the last one that was not low; a run that ends high has none.
    since = len(low) - low[::-1].argmin(axis=0)
    collapsed = np.where(low[-1], np.where(low.all(axis=0), 0, since), -1)
    return Course(learned, collapsed, low.any(axis=0) & ~low[-1])


def healthy(found: Course) -> np.ndarray:
    """Runs that learned and never fell below half of their gain, `[R]`."""
    return (found.learned >= 0) & (found.collapsed < 0) & ~found.recovered


def only(found: Course, among: np.ndarray) -> Course:
    """The courses of these runs, all others counting as if they had never learned."""
    return Course(np.where(among, found.learned, -1), np.where(among, found.collapsed, -1), found.recovered & among)


def matched(found: Course, others: np.ndarray, updates: int, watch: int, confirm: int, seed: int) -> Matched:
    """Collapses that were watched for `watch` updates, and `others` `[R]` cut at times drawn from those of collapses.

    A collapse counts where `confirm` updates follow it. Another run gets times of collapses drawn at random among
    those by which it had learned and been watched as long; without one it is left out.
    """
    early = np.where(found.learned >= 0, found.learned + watch + WINDOW, updates + 1)
    cases = np.flatnonzero((found.collapsed >= early) & (found.collapsed < updates - confirm))
    times = found.collapsed[cases]
    random = np.random.default_rng(seed)
    drawn = {one: random.choice(fit, DRAWS) for one in np.flatnonzero(others) if len(fit := times[times >= early[one]])}
    cut = np.array(list(drawn.values()), dtype=int).reshape(-1, DRAWS).T
    return Matched(cases, times, np.array(list(drawn), dtype=int), cut)


def statistics(metrics: dict[str, np.ndarray], returns: np.ndarray) -> dict[str, np.ndarray]:
    """Alarm statistics `[U, R]`, larger meaning more alarming, each fixed before anything was measured."""
    with np.errstate(divide="ignore"):
        size = np.log(np.maximum(metrics["ess"], 1e-12))
        norm = np.log(np.maximum(metrics["gradient_norm"], 1e-12))
    before = np.vstack([np.full((WINDOW, size.shape[1]), np.nan), trailing(size, PAST)[:-WINDOW]])
    found = {
        "ess": -trailing(size),
        "ess_drop": before - trailing(size),
        "norm": largest(norm),
        "norm_mean": trailing(norm),
        "share": trailing(metrics["max_weight_share"]),
        "weight": -trailing(metrics["mean_weight"]),
        "kl": trailing(metrics["kl"]),
        "cosine": trailing(metrics["gradient_cosine"]),
        "return": -trailing(returns),
    }
    # A statistic without a value (the cosine to a gradient of 0) raises no alarm.
    return {name: np.where(np.isnan(values), -np.inf, values) for name, values in found.items()}


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
    return Estimate(value, error or math.sqrt(least * (1.0 - least) / min(n, m)), min(n, m) - 1.0, samples=n + m)


def at(values: np.ndarray, runs: np.ndarray, times: np.ndarray, lead: int) -> np.ndarray:
    """A statistic of runs `[m]` so long before the last update ahead of their times `[m]` or `[draws, m]`."""
    return values[times - 1 - lead, runs]


def watched(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int) -> np.ndarray:
    """A statistic in the `watch` updates before the reference times, the last axis."""
    return values[times[..., None] - watch + np.arange(watch), runs[:, None]]


def worst(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int) -> np.ndarray:
    """Largest value of a statistic in the `watch` updates before the reference times: one score a run."""
    return watched(values, runs, times, watch).max(axis=-1)


def announced(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int, threshold: float) -> np.ndarray:
    """Updates between the first alarm of the watch and the reference time; -1 where there was none."""
    alarm = watched(values, runs, times, watch) > threshold
    return np.where(alarm.any(axis=-1), watch - alarm.argmax(axis=-1), -1)


def threshold(scores: np.ndarray, rate: float) -> float:
    """Level that the share `rate` of healthy scores exceeds."""
    return float(np.quantile(scores, 1.0 - rate, method="higher"))


def halves(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the runs that set a threshold and of those that are reported: even and odd replicates."""
    return runs % 2 == 0, runs % 2 == 1


def band(samples: int, false_fail: float = 0.05) -> float:
    """Half width of a band that holds a whole empirical distribution function (Massart 1990)."""
    return math.sqrt(math.log(2.0 / false_fail) / (2.0 * samples))


def median(values: np.ndarray, false_fail: float = 0.05) -> tuple[float, float, float]:
    """Median with the interval of order statistics that holds it whatever the law; infinite values allowed."""
    ordered = np.sort(values)
    lowest = int(stats.binom.ppf(false_fail / 2.0, len(ordered), 0.5))
    low = ordered[lowest - 1] if lowest >= 1 else -np.inf
    high = ordered[len(ordered) - lowest] if lowest >= 1 else np.inf
    return float(np.quantile(ordered, 0.5, method="inverted_cdf")), float(low), float(high)
