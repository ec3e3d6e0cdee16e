"""Standard errors between realizations, of ratios, of correlated series, of slopes, and by resampling.

Replicates that share one random schedule are not independent: the schedule affects them all. So if
schedules are random, the unit of every error bar here is the schedule realization, not the replicate.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.quantiles import critical as critical
from asyncsim.base.quantiles import quantile as quantile
from asyncsim.base.records import Estimate
from asyncsim.base.rng import Stream

FINITE = "keep finite replicates, report how many diverged; trace[NAME] is [updates, replicates]"


def between(values: Any, realization: Any = None, random: bool = False) -> Estimate:
    """Mean with its standard error between schedule realizations, or between replicates if schedules are not random.

    With n_m replicates on realization m, n = sum n_m, and y_m the mean inside realization m:
        value = sum_m n_m y_m / n,    error^2 = M/(M-1) sum_m (n_m/n)^2 (y_m - value)^2,
    which is s^2/M for equal counts. Without random schedules every replicate is its own realization.

    Arguments: `values` [R, ...], R >= 2; axes after the first are averaged inside a replicate. `realization`, integers
    [R], the realization each replicate ran on, needed when `random`. Units of `values`. Returns an `Estimate` with M-1
    degrees of freedom (R-1 when not random); with one random realization the error between its replicates, marked
    `independent=False`. Raises `InputError` for empty, single or non-finite values. Assumes independent realizations.

    >>> between([1.0, 2.0, 3.0, 4.0]).error.__round__(4)
    0.6455
    >>> between([1.0, 1.2, 3.0, 3.2], [0, 0, 1, 1], random=True).freedom
    1.0
    """
    rows = _rows("values", values)
    unit, count, several = np.arange(len(rows)), np.ones(len(rows)), True
    if random:
        index = np.asarray(realization)
        fits = realization is not None and index.ndim == 1 and index.dtype.kind in "iu" and len(rows) == len(index)
        remedy = "say which realization each replicate ran on"
        checks.require(fits, "realization", realization, f"integers [{len(rows)}]", remedy)
        distinct, member, members = np.unique(index, return_inverse=True, return_counts=True)
        several = len(distinct) > 1
        # One realization is never enough for an error.
        unit, count = (member, members.astype(np.float64)) if several else (unit, count)
    means = np.bincount(unit, weights=rows) / count
    share = count / len(rows)
    value = float(share @ means)
    m = len(means)
    spread = share * (means - value)
    error = math.sqrt(m / (m - 1) * float(spread @ spread))
    return Estimate(value, error, m - 1.0, samples=m, independent=several)


def ratio(numerators: Any, denominators: Any, realization: Any = None, random: bool = False) -> Estimate:
    """Ratio of two means with its standard error by linearization.

    value = x/y with x, y the means of numerators and denominators. Its error is that of the mean of
    (x_r - value * y_r) / y, taken as in `between`. Its bias is of order 1/R.

    Arguments: `numerators`, `denominators` [R, ...], paired by replicate; `realization`, `random` as in `between`.
    Returns an `Estimate` in units of numerator over denominator. Raises `InputError` for empty, single, unpaired or
    non-finite values, or a mean denominator of 0. Assumes the denominator is several of its own errors from 0.

    >>> ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])[:2]
    (2.0, 0.0)
    """
    top, bottom = _rows("numerators", numerators), _rows("denominators", denominators)
    checks.require(len(top) == len(bottom), "denominators", len(bottom), f"{len(top)} replicates", "pair them")
    scale = float(bottom.mean())
    checks.require(scale != 0.0, "denominators", scale, "of mean other than 0", "compare differences instead")
    value = float(top.mean()) / scale
    return between((top - value * bottom) / scale, realization, random)._replace(value=value)


def batch_means(series: Any, batches: int = 32) -> Estimate:
    """Mean of a stationary correlated series, with the standard error between means of consecutive batches.

    With b batch means y_j of equal length: value = mean y_j, error^2 = sum (y_j - value)^2 / (b (b-1)). The oldest
    numbers that do not fill a batch are left out.

    Arguments: `series` [U], in order; `batches`, b >= 2, at most U. Returns an `Estimate` with b-1 degrees of freedom.
    Raises `InputError` for short or non-finite series. Assumes batches longer than the correlation time.

    >>> batch_means([0.0, 1.0, 2.0, 3.0, 4.0], batches=2)[:2]
    (2.5, 1.0)
    """
    series = checks.finite_array("series", series, [None], "cut the series before it diverges")
    checks.integer("batches", batches, 2, "two batches at least, none shorter than one number", len(series))
    length = len(series) // batches
    return between(series[len(series) - batches * length :].reshape(batches, length))


def bootstrap(values: Any, statistic: Callable[[np.ndarray], float], draws: int = 1000, seed: int = 0) -> Estimate:
    """Any statistic of independent rows, with its standard error by the bootstrap.

    value = statistic(values); error = standard deviation of the statistic over `draws` resamples of R rows,
    times sqrt(R/(R-1)) for the missing degree of freedom.

    Arguments: `values` [R, ...], one row per independent unit (average inside realizations first). `statistic`, from
    such an array to a number; `draws` >= 2; `seed` of the resampling. Returns an `Estimate`, R-1 degrees of freedom.
    Raises `InputError` for empty, single or non-finite values, or a statistic that is not finite on a resample.
    Assumes a smooth statistic: not an extreme, not a quantile far in the tail.

    >>> import numpy as np
    >>> abs(bootstrap(np.arange(10.0), np.mean).error - between(np.arange(10.0)).error) < 0.05
    True
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(_rows("values", values))
    checks.integer("draws", draws, 2, "give at least two resamples")
    # Rows of the resamples, drawn in blocks of at most a million; small blocks are remembered.
    block, rows_of = max(1, (1 << 20) // n), _block if n <= 1 << 14 else _block.__wrapped__
    rows = (row for k in range(0, draws, block) for row in rows_of(n, k, min(k + block, draws), seed))
    resampled = np.array([statistic(values[row]) for row in rows], dtype=np.float64)
    value = float(statistic(values))
    bad = int((~np.isfinite(resampled)).sum()) + (not math.isfinite(value))
    checks.require(bad == 0, "values of statistic that are not finite", bad, "0", "choose another statistic")
    return Estimate(value, float(resampled.std(ddof=1)) * math.sqrt(n / (n - 1)), n - 1.0, samples=n)


@lru_cache(maxsize=4)
def _block(n: int, first: int, last: int, seed: int) -> np.ndarray:
    draw = np.arange(first, last)[:, None]
    return (Stream(seed, "bootstrap").uniform(draw, np.arange(n)) * n).astype(np.intp)


def slope(x: Any, y_samples: Any, realization: Any = None, random: bool = False, log: bool = False) -> Estimate:
    """Least-squares slope of mean y on x, with its error between replicates; with `log`, of log mean y on log x.

    With X = x, Y_j the mean of column j (or both in logs) and c_j = (X_j - mean X) / sum (X - mean X)^2:
        value = sum_j c_j Y_j,    error = that of the mean of sum_j c_j y_rj (y_rj / mean y_j in logs), as in `between`.

    Arguments: `x` [K], K >= 2, not all equal; `y_samples` [R, K], one row per replicate. `realization`, `random` as in
    `between`; `log`, both axes in logarithms. Returns an `Estimate` in units of y over x (none in logs).
    Raises `InputError` for empty, non-finite or constant x, a single replicate, or logs of non-positive numbers.
    Assumes nothing about the noise across columns: it is carried by whole rows. In logs the bias is of order 1/R.

    >>> slope([1.0, 2.0, 4.0], [[3.0, 12.0, 48.0], [3.0, 12.0, 48.0]], log=True).value.__round__(12)
    2.0
    """
    x = checks.finite_array("x", x, [None], "give the abscissae of the fit")
    y = checks.finite_array("y_samples", y_samples, [None, len(x)], FINITE)
    mean = y.mean(axis=0)
    if log:
        smallest = float(min(x.min(), mean.min()))
        checks.require(smallest > 0.0, "smallest x or mean y", smallest, "positive", "fit without logarithms")
        x, y = np.log(x), y / mean
    centered = x - x.mean()
    checks.require(bool(centered.any()), "x", x.tolist(), "of at least two different values", "vary the abscissa")
    weight = centered / float(centered @ centered)
    estimate = between(y @ weight, realization, random)
    return estimate._replace(value=float(weight @ np.log(mean))) if log else estimate


def proportion(successes: int, trials: int) -> Estimate:
    """Share of successes, with a standard error that is positive even at 0 and 100 percent.

    value = k/n; error^2 = p(1-p)/(n+4) with p = (k+2)/(n+4) (Agresti and Coull 1998), degrees of freedom infinite.

    Arguments: `successes` k in [0, n]; `trials` n >= 1, independent. Returns an `Estimate`, a pure number.
    Raises `InputError` for other counts. Assumes k and n - k of ten or more where the level is strict.

    >>> proportion(0, 96).error.__round__(3)
    0.014
    """
    checks.integer("trials", trials, 1, "count at least one trial")
    checks.integer("successes", successes, 0, "count successes among the trials", trials)
    p = (successes + 2) / (trials + 4)
    return Estimate(successes / trials, math.sqrt(p * (1 - p) / (trials + 4)), samples=int(trials))


def _rows(field: str, values: Any) -> np.ndarray:
    """Average all axes but the first, R >= 2, to one number per replicate, [R]."""
    array = np.asarray(values)
    checks.require(array.ndim >= 1, field, values, "an array with a replicate axis", "give one row per replicate")
    array = checks.finite_array(field, values, [None] * array.ndim, FINITE)
    checks.require(len(array) >= 2, f"replicates of {field}", len(array), ">= 2", "an error bar needs two of them")
    return array.reshape(len(array), -1).mean(axis=1)
