"""What of two arms' numbers is compared, and the interval for it."""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base.records import Estimate
from asyncsim.comparing import intervals

STATISTICS = ("mean", "median", "iqm", "improvement")
INTERVALS = ("planned", "betting")
OWN = {"median": "quantile", "iqm": "planned", "improvement": "betting"}
"""The interval of each statistic but the mean."""
TRIM = 0.25
"""Share of the numbers that an interquartile mean leaves out at each end."""
HEAVY = 0.5
"""Share of a sample's variance that one number may hold before its tail is called heavy."""


def heavy(numbers: np.ndarray) -> bool:
    """Whether one number holds more than half of the variance: few numbers do not tell such a mean.

    >>> heavy(np.array([0.0, 0.1, -0.1, 0.05, 50.0])), heavy(np.arange(10.0))
    (True, False)
    """
    apart = np.abs(numbers - numbers.mean())
    # In units of the largest: squares of what has diverged would overflow.
    squares = (apart / max(float(apart.max()), math.ulp(0.0))) ** 2
    return bool(len(numbers) > 3 and squares.max() > HEAVY * squares.sum())


def betting_decides(bounds: tuple[float, float], most: int, smallest: float) -> bool:
    """Whether bets on so many numbers could tell differences of the smallest effect.

    However small the variance, n numbers of range B leave at least the half width B log(2 n) / n: an event of that
    chance and size may not have been seen yet.
    """
    reach = 2.0 * (bounds[1] - bounds[0])
    return reach * math.log(2.0 * most) / most < smallest / 2.0


def events(a: np.ndarray, b: np.ndarray, bounds: tuple[float, float]) -> tuple[float, float]:
    """Largest fall and rise of a difference a - b when one arm leaves its mean for an end of the range [l, h].

    max(mean a - l, h - mean b) and max(h - mean a, mean b - l). Where nothing bounds the numbers `a`, `b` `[n]`, the
    largest magnitude seen counts for both: an arm loses everything, or doubles.

    >>> events(np.array([0.5, 0.75]), np.array([0.25, 0.5]), (0.0, 1.0))
    (0.625, 0.375)
    """
    low, high = bounds
    if not math.isfinite(high - low):
        largest = max(float(np.abs(a).max()), float(np.abs(b).max())) or math.inf
        return largest, largest
    mean, base = float(a.mean()), float(b.mean())
    return max(mean - low, high - base), max(high - mean, base - low)


def difference(
    statistic: str, kind: str, a: np.ndarray, b: np.ndarray, bounds: tuple[float, float], looks: int, alpha: float
) -> tuple[float, intervals.Interval, intervals.Interval, float]:
    """The statistic of the paired numbers `a`, `b` `[n]`, and its interval at level `alpha` over all looks.

    Two more are returned: the interval without room for unseen events, and the largest change of a number that it has
    room for (0: it assumes nothing of them).
    """
    b = b[: len(a)]
    x = a - b
    value = float(x.mean())
    if statistic == "median":
        value, interval = float(np.median(x)), intervals.quantile(x, 0.5, alpha)
    elif statistic == "improvement":
        wins = np.sign(x) / 2.0
        value, interval = float(wins.mean()), intervals.betting(wins, -0.5, 0.5, alpha)
    elif statistic == "iqm":
        estimate = trimmed(a, b)
        value, interval = estimate.value, intervals.around(estimate, looks, alpha)
    elif kind == "exact":
        interval = intervals.Interval(value, value)
    elif kind == "betting":
        interval = intervals.betting(x, bounds[0] - bounds[1], bounds[1] - bounds[0], alpha)
    else:
        event = intervals.unseen(x, events(a, b, bounds))
        interval = intervals.planned(x, looks, alpha, event)
        return value, interval, intervals.planned(x, looks, alpha), max(event)
    return value, interval, interval, 0.0


def trimmed(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Difference of the interquartile means of paired numbers, with its standard error.

    With g = floor(n/4), h = n - 2g, and winsorized sums of squares S_a, S_b and products S_ab:
        value = tm(a) - tm(b),    error^2 = (S_a + S_b - 2 S_ab) / (h (h - 1)),    h - 1 degrees of freedom.

    Arguments: `a`, `b` `[n]`, n >= 5. Assumes independent pairs. Source: Yuen (1974), for dependent groups; the
    interquartile mean over runs as in rliable (2108.13264).

    >>> round(trimmed(np.arange(8.0), np.zeros(8)).value, 3)
    3.5
    """
    n = len(a)
    g = int(TRIM * n)
    h = n - 2 * g
    means, centered = [], []
    for numbers in (a, b):
        order = np.sort(numbers)
        means.append(order[g : n - g].mean())
        winsorized = np.clip(numbers, order[g], order[n - g - 1])
        centered.append(winsorized - winsorized.mean())
    squares = float(((centered[0] - centered[1]) ** 2).sum())
    return Estimate(float(means[0] - means[1]), math.sqrt(squares / (h * (h - 1))), h - 1.0, samples=n)
