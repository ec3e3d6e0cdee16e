"""Alarms: signals of a metric, the definition of a collapse, matched runs, and the quality of a score.

Axes: `U` recorded updates, `R` replicates, `n` runs that collapse, `m` others, whose times may be drawn several times.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from asyncsim.base import checks, plugins, uncertainty
from asyncsim.base.records import Estimate
from asyncsim.comparing.readings import WINDOW, lows, trailing
from asyncsim.diagnosing import aliases

OVER = ("mean", "largest", "smallest")
TINY = 1e-12
"""Least number whose logarithm is taken."""
DRAWS = 20
"""Times that each control is given: results are means over them, as a single draw moves an area by some 0.02."""


def largest(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """Maximum of the last `width` values, `[U, R]`; missing values are ignored."""
    padded = np.vstack([np.full((width - 1, values.shape[1]), -np.inf), np.where(np.isnan(values), -np.inf, values)])
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=0).max(axis=-1)


@dataclass(frozen=True)
class Signal:
    """A number computed at every update from the past of one metric; larger numbers are more alarming.

    s_t = +-F(x_(t-w+1), ..., x_t), F the mean, the largest or the smallest of the last w = `window` numbers; with
    `past` > 0 the mean of the `past` numbers before the window is subtracted, so that a change counts and not a level.
    The minimum of k numbers exceeds a level if the metric does so at k updates in a row.

    Arguments: `metric`, its name in the trace or log. `low`: small values are alarming (the sign is -). `log`: use its
    logarithm. `over`: F, applied after sign and logarithm. `window` >= 1 and `past` >= 0, in recorded updates. Called
    with a mapping of metrics `[U, R]` it returns `[U, R]`: -inf where a number is missing, which raises no alarm.
    Raises `InputError` for other settings or a missing metric. Assumes that row t was known at update t. Source: this
    package.

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
        """Compute the signal s, `[U, R]`."""
        checks.one_of("metric", self.metric, metrics, plugins.unrecorded(self.metric, metrics))
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
            score = score - np.vstack([padding, trailing(signed, self.past)])[: len(signed)]
        return np.where(np.isnan(score), -np.inf, score)


LOW = "entropy exact_cosine log_ratio_min mean_weight applied_mean tail_index"
"""Metrics that are feared low where they are named only, as returns and, by their logarithm, sizes of ESS are."""


def signal_of(given: Any, window: int = WINDOW) -> Signal:
    """Return a signal as given, or the default signal of a metric by name. Raises `InputError` for anything else."""
    if isinstance(given, Signal):
        return given
    checks.require(isinstance(given, str), "signal", given, "a metric's name or a Signal", "name a metric of the trace")
    remedy = f"Signal({given[1:]!r}, low=True) fears small values, Signal({given[1:]!r}) large ones"
    checks.require(given[:1] != "-", "signal", given, "a metric's name without a sign", remedy)
    name = aliases.steps().get(given, (given, ""))[0]  # a trainer's own names too
    ess, norm = name.partition("_")[0] == "ess", given.endswith("gradient_norm")
    low = ess or name.endswith(("_return", "reward", "ratio_mean")) or name in LOW.split()
    return Signal(given, low, ess or norm, "largest" if norm else "mean", window)


class Course(NamedTuple):
    """Outcome of each run, `[R]`: update at which it learned, that at which it fell (-1: never), if it recovered."""

    learned: np.ndarray
    collapsed: np.ndarray
    recovered: np.ndarray


class Matched(NamedTuple):
    """Runs to compare: cases `[n]`, which collapse, and controls `[m]`, which do not, with reference updates.
    Runs are given by index. A case collapses at its update; updates of controls are drawn, `[draws, m]`."""

    cases: np.ndarray
    case_times: np.ndarray
    controls: np.ndarray
    control_times: np.ndarray


def course(returns: np.ndarray, start: float, best: float, window: int = WINDOW, event: str = "collapse") -> Course:
    """Classify each run from its returns `[U, R]`, the return `start` of the initial policy and the `best` return.

    With m_t the mean of the last `window` returns and p_t its running peak, a run has learned at the first t with
    m_t >= start + (best - start)/2, and has collapsed from the first t behind which always
    m_t < start + (p_t - start)/2. With `event` "fall", `collapsed` is the first such t, whether or not it comes back.
    """
    learned, low = lows(trailing(returns, window), start, best)
    # The update after the last one that was not low; a run that ends high has none.
    since = len(low) - low[::-1].argmin(axis=0)
    collapsed = np.where(low[-1], np.where(low.all(axis=0), 0, since), -1)
    if event == "fall":
        collapsed = np.where(low.any(axis=0), low.argmax(axis=0), -1)
    return Course(learned, collapsed, low.any(axis=0) & ~low[-1])


def healthy(found: Course) -> np.ndarray:
    """Whether each run learned and never fell below half of its gain, `[R]`."""
    return (found.learned >= 0) & (found.collapsed < 0) & ~found.recovered


def matched(
    found: Course, others: np.ndarray, updates: int, watch: int, confirm: int, seed: int, window: int = WINDOW
) -> Matched:
    """Match runs that collapse after at least `watch` updates with `others` `[R]`, cut at collapse times.

    A collapse counts where `confirm` updates follow it. Another run gets times drawn among those of collapses by which
    it had learned and been watched as long; without one it is left out.
    """
    early = np.where(found.learned >= 0, found.learned + watch + window, updates + 1)
    cases = np.flatnonzero((found.collapsed >= early) & (found.collapsed < updates - confirm))
    times = found.collapsed[cases]
    random = np.random.default_rng(seed)
    drawn = {one: random.choice(fit, DRAWS) for one in np.flatnonzero(others) if len(fit := times[times >= early[one]])}
    cut = np.array(list(drawn.values()), dtype=int).reshape(-1, DRAWS).T
    return Matched(cases, times, np.array(list(drawn), dtype=int), cut)


def watched(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int) -> np.ndarray:
    """Values of a statistic in the `watch` updates before each reference time, on the last axis."""
    return values[times[..., None] - watch + np.arange(watch), runs[:, None]]


def worst(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int | None, lead: int = 0) -> np.ndarray:
    """Score of each run: maximum of a statistic in the `watch` updates until `lead` before the reference time."""
    if watch is None:
        return np.fmax.accumulate(values, axis=0)[times - 1 - lead, runs]
    return watched(values, runs, times - lead, watch - lead).max(axis=-1)


def announced(values: np.ndarray, runs: np.ndarray, times: np.ndarray, watch: int | None, level: float) -> np.ndarray:
    """Lead time: number of updates from the first alarm to the reference time; -1 without an alarm."""
    if watch is None:
        first = (np.fmax.accumulate(values, axis=0) <= level).sum(axis=0)[runs]
        return np.where(first < times, times - first, -1)
    alarm = watched(values, runs, times, watch) > level
    return np.where(alarm.any(axis=-1), watch - alarm.argmax(axis=-1), -1)


def auc(cases: np.ndarray, controls: np.ndarray) -> Estimate:
    """Probability that a case scores above a control, ties counted half; cases `[n]`, controls `[m]` or `[draws, m]`.

    The error is that of a two-sample U statistic (DeLong 1988); over several draws of the same controls placements are
    averaged first. Where no score is out of place, it is the bound A (1 - A) / min(n) at one half of a pair misplaced.
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


def at_equal_times(cases: np.ndarray, controls: np.ndarray, pairs: Matched, error: float = 0.05) -> tuple[float, float]:
    """AUC of cases against controls cut at the same times, with the half-width of its error bound.

    With weights w_ij of pairs and c the largest sum of one run, A is a mean over matchings of runs, so that
    P(|A - E A| >= x) <= 2 exp(-2 x^2 / (c^2 min(n, m))) (Hoeffding 1963).
    """
    above, weights = [], []
    for score, time in zip(cases, pairs.case_times, strict=True):
        here = pairs.control_times == time
        if here.any():
            weights.append(here.sum(axis=0) / here.sum())
            above.append(np.mean(np.where(controls == score, 0.5, controls < score)[here]))
    heaviest = max(1.0, float(np.sum(weights, axis=0).max())) / len(above)
    most = min(len(above), controls.shape[-1])
    return float(np.mean(above)), heaviest * most * band(most, error)


def roc(cases: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Fractions of controls and cases with an alarm at each threshold, from none to all: `[K, 2]`, ties in one step."""
    levels = np.unique(np.concatenate([np.ravel(cases), np.ravel(controls)]))
    sides = (np.sort(np.ravel(side)) for side in (controls, cases))
    shares = [1.0 - np.searchsorted(side, levels, side="left") / side.size for side in sides]
    return np.vstack([[0.0, 0.0], np.stack(shares, axis=1)[::-1]])


def threshold(scores: np.ndarray, rate: float) -> float:
    """Alarm threshold that a fraction `rate` of the scores of healthy runs exceeds."""
    return float(np.quantile(scores, 1.0 - rate, method="higher"))


def halves(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the runs that set a threshold (even replicates) and of those that are reported (odd replicates)."""
    return runs % 2 == 0, runs % 2 == 1


def band(samples: int, error: float = 0.05) -> float:
    """Half-width e of a confidence band of an empirical distribution: P(sup |F_n - F| > e) <= error (Massart 1990)."""
    n = checks.integer("samples", samples, 1, "count independent runs")
    return math.sqrt(math.log(2.0 / checks.rate("error", error, "give a share of runs")) / (2.0 * n))
