"""What the order of a record of delays holds: its autocorrelation, and what drawing them independently would change."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asyncsim.base import uncertainty
from asyncsim.base.records import Estimate

STRETCHES = 20
"""Consecutive parts of a record between which errors are taken."""
SHUFFLES = 99
"""A record is called correlated where it exceeds all of so many shuffles of itself: false alarms 1 %."""
LAGS = (1, 2, 4, 8, 16, 32, 64)
FEWEST = 2 * STRETCHES
"""Delays from which on anything is said of their order."""
LONG = 50
"""Correlation times that a record has to have for its correlation time to be known."""
REACH = 3.0
"""Lags in correlation times behind which autocorrelations are taken as 0: exp(-6) is left of an exponential."""
WINDOWS = (10, 100, 1000)
LEVEL = 0.05


class Window(NamedTuple):
    """What k consecutive delays do: variance of their mean over that of independent ones, and their largest."""

    size: int
    ratio: Estimate
    largest: Estimate
    independent: float


class Order(NamedTuple):
    """Autocorrelation at lag 1, whether shuffles exclude none, what would show, and the correlation time in delays.

    `time` is None where the record is too short for it, or its order says nothing.
    """

    lag1: Estimate
    correlated: bool
    shows: float
    time: Estimate | None
    windows: tuple[Window, ...]


def order(delays: np.ndarray) -> Order | None:
    """All about the order of a record `[n]`; None for one that is constant or of fewer than `FEWEST` delays."""
    if len(delays) < FEWEST or np.ptp(delays) == 0.0:
        return None
    centered = delays - delays.mean()
    # A record without order exceeds the largest sum among shuffles with probability 1 / (SHUFFLES + 1).
    shuffled = np.random.default_rng(0)
    threshold = max(_largest_sum(shuffled.permutation(centered)) for _ in range(SHUFFLES))
    correlated = _largest_sum(centered) > threshold
    lag1 = _ratio(np.append(centered[1:] * centered[:-1], 0.0), centered**2)
    windows = tuple(_window(delays, size) for size in WINDOWS if len(delays) >= STRETCHES * size)
    # Nine of ten records with it would exceed the shuffles.
    shows = threshold + 1.2816 / math.sqrt(len(delays))
    return Order(lag1, correlated, shows, correlation_time(centered) if correlated else None, windows)


def _sums(centered: np.ndarray) -> np.ndarray:
    """Sums of the autocorrelations up to each of `LAGS`."""
    lags = [lag for lag in LAGS if 4 * lag <= len(centered)]
    return np.cumsum(_autocorrelations(centered, lags[-1])[1:])[np.array(lags) - 1]


def _largest_sum(centered: np.ndarray) -> float:
    """max over lags m of |rho_1 + ... + rho_m| / sqrt(m): short and long correlations both show."""
    sums = _sums(centered)
    return float(np.max(np.abs(sums) / np.sqrt(LAGS[: len(sums)])))


def correlation_time(centered: np.ndarray) -> Estimate | None:
    """Integrated autocorrelation time tau = 1 + 2 sum_k rho_k in delays, with its error; None where n < LONG tau or
    where tau is 0.

    The sum ends at the first W >= REACH tau (Sokal 1997); the factor 1 + (2W + 1)/n undoes the bias of the mean (Wolff
    2004, hep-lat/0306017, eq. 49). The error is the larger of Madras and Sokal's and that between stretches.
    """
    n = len(centered)
    rho = _autocorrelations(centered, n // 4)
    times = 1.0 + 2.0 * np.cumsum(rho[1:])
    closed = np.flatnonzero(np.arange(1, len(times) + 1) >= REACH * times)
    if not closed.size:
        return None
    width = int(closed[0]) + 1
    time = float(times[width - 1]) * (1.0 + (2 * width + 1) / n)
    # A record that repeats itself has none: means of its periods are all the same.
    if n < LONG * time or time <= 2 * (2 * width + 1) / n:
        return None
    # Write the sum as a mean over places, whose error is taken between stretches.
    total = np.concatenate([[0.0], np.cumsum(centered)])
    place = np.arange(n)
    around = total[np.minimum(place + width + 1, n)] - total[np.maximum(place - width, 0)]
    error = max(_ratio(centered * around, centered**2).error, time * math.sqrt(2.0 * (2 * width + 1) / n))
    return Estimate(time, error, STRETCHES - 1.0, samples=n)


def _autocorrelations(centered: np.ndarray, lags: int) -> np.ndarray:
    """rho_0 to rho at so many lags, by Fourier transform."""
    from scipy import fft

    size = fft.next_fast_len(len(centered) + lags + 1, real=True)
    power = np.abs(fft.rfft(centered, size)) ** 2
    products = fft.irfft(power, size)[: lags + 1]
    return np.asarray(products / products[0])


def _window(delays: np.ndarray, size: int) -> Window:
    """Means and largest of all windows of a size; the independent largest is that of draws from the record."""
    from scipy.ndimage import maximum_filter1d

    total = np.concatenate([[0.0], np.cumsum(delays - delays.mean())])
    means = (total[size:] - total[:-size]) / size
    variance = np.full(len(means), float(delays.var()) / size)
    largest = maximum_filter1d(delays, size)[size // 2 : size // 2 + len(means)]
    ascending, n = np.sort(delays), len(delays)
    below = (np.arange(n + 1) / n) ** size
    return Window(size, _ratio(means**2, variance), _mean(largest), float(ascending @ np.diff(below)))


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> Estimate:
    """Ratio of two means, with its error between stretches."""
    length = len(numerators) // STRETCHES
    top, bottom = (x[: STRETCHES * length].reshape(STRETCHES, length) for x in (numerators, denominators))
    if not bottom.any():
        return Estimate(float(numerators.mean() / denominators.mean()), math.inf, STRETCHES - 1.0)
    estimate = uncertainty.ratio(top, bottom)
    return estimate._replace(value=float(numerators.mean() / denominators.mean()))


def _mean(values: np.ndarray) -> Estimate:
    return uncertainty.batch_means(values, STRETCHES)._replace(value=float(values.mean()))


def interval(estimate: Estimate, logarithmic: bool = False) -> tuple[float, float]:
    """Ends of the 95 percent interval, of a positive quantity in its logarithm."""
    reach = uncertainty.critical(LEVEL, estimate.freedom) * estimate.error
    value = estimate.value
    if logarithmic and value > 0.0:
        # Beyond this exponent nothing is known.
        factor = math.exp(min(reach / value, 300.0))
        return value / factor, value * factor
    return value - reach, value + reach
