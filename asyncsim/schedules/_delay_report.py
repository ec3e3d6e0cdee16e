"""A record of delays: its distribution, the correlation in its order, and what independent draws would change."""

import math
from typing import Any, NamedTuple

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
    """Statistics of k consecutive delays: variance of their mean divided by that of independent ones, and maximum."""

    size: int
    ratio: Estimate
    largest: Estimate
    independent: float


class Order(NamedTuple):
    """Dependence between successive delays: autocorrelation at lag 1, its detectability, and the correlation time.

    `time` is None where the record is too short for it, or its order says nothing.
    """

    lag1: Estimate
    correlated: bool
    shows: float
    time: Estimate | None
    windows: tuple[Window, ...]


def order(delays: np.ndarray) -> Order | None:
    """Dependence between successive delays `[n]`; None if all are equal, or fewer than `FEWEST` are recorded."""
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


def _largest_sum(centered: np.ndarray) -> float:
    """max over lags m of |rho_1 + ... + rho_m| / sqrt(m), sensitive to short and long correlations."""
    lags = np.array([lag for lag in LAGS if 4 * lag <= len(centered)])
    sums = np.cumsum(_autocorrelations(centered, int(lags[-1]))[1:])[lags - 1]
    return float(np.max(np.abs(sums) / np.sqrt(lags)))


def correlation_time(centered: np.ndarray) -> Estimate | None:
    """Integrated autocorrelation time tau = 1 + 2 sum_k rho_k of delays, in delays, with its error; None if unknown.

    None where n < LONG tau or where tau is 0.
    The sum ends at the first W >= REACH tau (Sokal 1997); the factor 1 + (2W + 1)/n undoes the bias of the mean (Wolff
    2004, hep-lat/0306017, eq. 49). The error is the larger of Madras and Sokal's and that between stretches.
    """
    n = len(centered)
    times = 1.0 + 2.0 * np.cumsum(_autocorrelations(centered, n // 4)[1:])
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
    """Autocorrelations rho_0 .. rho_lags, by Fourier transform."""
    from scipy import fft

    size = fft.next_fast_len(len(centered) + lags + 1, real=True)
    power = np.abs(fft.rfft(centered, size)) ** 2
    products = fft.irfft(power, size)[: lags + 1]
    return np.asarray(products / products[0])


def _window(delays: np.ndarray, size: int) -> Window:
    """Means and maxima of all windows of a size; the independent maximum is for draws from the recording."""
    from scipy.ndimage import maximum_filter1d

    total = np.concatenate([[0.0], np.cumsum(delays - delays.mean())])
    means = (total[size:] - total[:-size]) / size
    variance = np.full(len(means), float(delays.var()) / size)
    largest = maximum_filter1d(delays, size)[size // 2 : size // 2 + len(means)]
    average = uncertainty.batch_means(largest, STRETCHES)._replace(value=float(largest.mean()))
    ascending, n = np.sort(delays), len(delays)
    below = (np.arange(n + 1) / n) ** size
    return Window(size, _ratio(means**2, variance), average, float(ascending @ np.diff(below)))


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> Estimate:
    length = len(numerators) // STRETCHES
    top, bottom = (x[: STRETCHES * length].reshape(STRETCHES, length) for x in (numerators, denominators))
    if not bottom.any():
        return Estimate(float(numerators.mean() / denominators.mean()), math.inf, STRETCHES - 1.0)
    return uncertainty.ratio(top, bottom)._replace(value=float(numerators.mean() / denominators.mean()))


def interval(estimate: Estimate, logarithmic: bool = False) -> tuple[float, float]:
    """Ends of an estimate's 95 percent interval; for a positive quantity optionally on its logarithm."""
    reach = uncertainty.critical(LEVEL, estimate.freedom) * estimate.error
    value = estimate.value
    if logarithmic and value > 0.0:
        # Beyond this exponent nothing is known.
        factor = math.exp(min(reach / value, 300.0))
        return value / factor, value * factor
    return value - reach, value + reach


QUANTILES = (0.05, 0.5, 0.95, 0.99)


class Report(NamedTuple):
    """Report on a recording of n delays: mean, quantiles, and dependence between delays (None if unknown).

    `order.time` is the integrated autocorrelation time in delays; n / time is the effective number of independent ones.
    """

    source: str
    unit: str
    delays: int
    mean: float
    deviation: float
    least: float
    largest: float
    quantiles: dict[float, float]
    order: Order | None

    @classmethod
    def of(cls, source: str, unit: str, numbers: np.ndarray) -> "Report":
        """Make a report on recorded delays in order, float64 `[n]`."""
        quantiles = dict(zip(QUANTILES, np.quantile(numbers, QUANTILES).tolist(), strict=True))
        moments = float(numbers.mean()), float(numbers.std()), float(numbers.min()), float(numbers.max())
        return cls(source, unit, len(numbers), *moments, quantiles, order(numbers))

    @property
    def independent(self) -> float | None:
        """Effective number of independent delays, n / correlation time; None if that is unknown."""
        return None if self.order is None or self.order.time is None else self.delays / self.order.time.value

    def row(self) -> dict[str, Any]:
        """Return the report on delays as a JSON object."""
        row = self._asdict() | {"quantiles": {str(k): v for k, v in self.quantiles.items()}}
        if self.order is None:
            return row
        row["order"] = {
            "lag1": _plain(self.order.lag1),
            "correlated": self.order.correlated,
            "shows_from": self.order.shows,
            "correlation_time": None if self.order.time is None else _plain(self.order.time, True),
            "independent_delays": self.independent,
            "windows": [
                {
                    "delays": each.size,
                    "variance_of_mean_over_independent": _plain(each.ratio, True),
                    "largest": _plain(each.largest),
                    "largest_independent": each.independent,
                }
                for each in self.order.windows
            ],
        }
        return row

    def __str__(self) -> str:
        """Format the report on one page."""
        five, half, most, extreme = self.quantiles.values()
        lines = [
            f"delays {self.source} ({self.delays} in {self.unit}, in their order)",
            f"mean {self.mean:.4g}, standard deviation {self.deviation:.3g}; from {self.least:g} to {self.largest:g}",
            f"quantiles: 5 % {five:.4g}, median {half:.4g}, 95 % {most:.4g}, 99 % {extreme:.4g}",
        ]
        if self.unit != "seconds" and self.largest > 0:
            lines.append("a delay above the age of the run is clipped at version 0")
        if self.order is None:
            why = "all delays are equal" if self.least == self.largest else f"give {FEWEST} delays or more"
            return "\n".join([*lines, f"correlation: cannot tell, {why}"])
        lines.append(f"autocorrelation at lag 1: {_shown(self.order.lag1)}")
        if not self.order.correlated:
            lines.append(
                "correlation: cannot tell from none (false alarms 1 %); at lag 1 one above "
                f"{self.order.shows:.2g} would show"
            )
            return "\n".join([*lines, "drawing them independently changes nothing that this record can show"])
        if self.order.time is None:
            lines.append(f"correlation time: cannot tell; log {LONG} of them or more (none: it repeats)")
        else:
            many = f"as many as {self.independent:.4g} independent ones"
            lines.append(f"correlation time: {_shown(self.order.time, True)} delays; {many}")
        lines.append("drawing them independently loses (correlated by 99 shuffles, false alarms 1 %):")
        for each in self.order.windows:
            lines.append(f"  mean of {each.size}: {_shown(each.ratio, True)} times the variance of independent ones")
            of = f"of independent ones {each.independent:.4g}"
            lines.append(f"  largest of {each.size}: {_shown(each.largest)}; {of}")
        return "\n".join(lines)


def _plain(estimate: Estimate, logarithmic: bool = False) -> dict[str, float]:
    low, high = interval(estimate, logarithmic)
    return {"value": estimate.value, "low": low, "high": high}


def _shown(estimate: Estimate, logarithmic: bool = False) -> str:
    low, high = interval(estimate, logarithmic)
    return f"{estimate.value:.3g} ({low:.3g} to {high:.3g})"
