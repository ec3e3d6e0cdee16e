"""Statistics of two arms' numbers, with intervals that remain valid under interim looks: they count all looks.

A fixed 95 percent interval, checked repeatedly until it excludes zero, misses the truth far more often. The intervals
here allow stopping: `betting`, `share` and `quantile` at any time, `planned` at looks n, 2n, 4n, ...
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from asyncsim.base import checks, uncertainty
from asyncsim.base.records import Estimate

HALVINGS = 40
"""Number of halvings in the search for an end of an interval."""
TRUNCATION = 0.5
"""Maximum share of the wealth that one number can cost."""
TAIL = 8.0
"""Standard normal scores beyond which the density is neglected."""
NODES = 64
"""Number of Gauss-Legendre nodes in the integral over one look."""
BEYOND = 3.0
"""Size of an unseen event, in units of the largest deviation observed to that side."""
MISSED = 0.8
"""Share of the error rate for missing an event; the rest is for random errors in the mean of later looks."""
CHANCES = 24
"""Number of steps from an impossible event to the rarest one that is excluded."""

STATISTICS = ("mean", "median", "iqm", "improvement")
INTERVALS = ("planned", "betting")
OWN = {"median": "quantile", "iqm": "planned", "improvement": "betting"}
"""The interval of each statistic except the mean."""
TRIM = 0.25
"""Share of the numbers that an interquartile mean omits at each end."""
HEAVY = 0.5
"""Share of a sample's variance in one number above which the tail counts as heavy."""


class Interval(NamedTuple):
    """An interval for a mean, share or quantile of numbers, in their units."""

    low: float
    high: float


def betting(values: Any, low: float, high: float, alpha: float = 0.05) -> Interval:
    """Interval for the mean of bounded numbers, valid at every stopping time: the means that no bet refutes.

    With x_i scaled to [0, 1] and stakes l_i = sqrt(2 log(2/alpha) / (v_{i-1} i log(1 + i))), v_{i-1} the variance of
    the numbers before (1/4 at first), a gambler against the mean m holds
        K_n(m) = max(prod_i (1 + min(l_i, 1/(2m)) (x_i - m)), prod_i (1 - min(l_i, 1/(2(1-m))) (x_i - m))) / 2.
    Under the true mean K rarely grows: P(K_n(m) >= 1/alpha at any n) <= alpha. The interval holds every other m.

    Arguments: `values` [n] in order; `low`, `high`, bounds of a number; `alpha`, probability that the interval ever
    misses the mean. Returns the means not refuted, or all if none remains. Raises `InputError` for numbers outside the
    bounds. Assumes a constant mean of all numbers, given those before. Source: Waudby-Smith and Ramdas (2010.09686),
    the hedged capital of section 4.

    >>> interval = betting(np.full(400, 0.25), 0.0, 1.0)
    >>> round(interval.low, 2), round(interval.high, 2)
    (0.25, 0.26)
    """
    x = _scaled(values, low, high)
    stakes, bar = _stakes(x, checks.rate("alpha", alpha)), math.log(2.0 / alpha)
    # Gains from betting on more fall with the mean, those from betting on less rise: each bounds one end.
    floor = _root(lambda m: _gain(x, np.minimum(stakes, TRUNCATION / m), m) < bar, 1.0, 0.0)
    ceiling = _root(lambda m: _gain(x, -np.minimum(stakes, TRUNCATION / (1.0 - m)), m) < bar, 0.0, 1.0)
    if floor > ceiling:
        # Chance alone, of probability below alpha, has refuted every mean; the numbers say nothing then.
        return Interval(low, high)
    return Interval(low + (high - low) * floor, low + (high - low) * ceiling)


def _scaled(values: Any, low: float, high: float) -> np.ndarray:
    x = checks.finite_array("values", values, (None,), "give one number per unit")
    checks.require(high > low, "bounds", (low, high), "low < high", "give the range of a number")
    slack = 1e-9 * (high - low)
    for extreme in (float(x.min()), float(x.max())):
        checks.real("values", extreme, "give the bounds that every number keeps", low - slack, high + slack)
    return np.clip((x - low) / (high - low), 0.0, 1.0)


def _stakes(x: np.ndarray, alpha: float) -> np.ndarray:
    """Stakes `[n]`, each computed from the numbers before it."""
    i = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (i + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (i + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.sqrt(2.0 * math.log(2.0 / alpha) / (before * i * np.log1p(i)))


def _gain(x: np.ndarray, stakes: np.ndarray, mean: float) -> float:
    """Maximum log wealth that these stakes ever reached against a mean."""
    return float(np.cumsum(np.log1p(stakes * (x - mean))).max())


def share(successes: int, trials: int, alpha: float = 0.05) -> Interval:
    """Interval for a probability, valid at every stopping time, by a beta mixture.

    {p : B(1/2 + s, 1/2 + n - s) / B(1/2, 1/2) < p^s q^(n - s) / alpha}, q = 1 - p: the left side is the chance of the
    outcomes under a mixture of all probabilities.

    Arguments: `successes` s of `trials` n; `alpha`, probability that the interval ever misses p. Returns probabilities.
    Raises `InputError` for more successes than trials. Assumes independent trials of one probability. Source: Robbins
    (1970), the beta mixture.

    >>> interval = share(5, 100)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.007, 0.156)
    """
    s = checks.integer("successes", successes, 0, "count them", trials)
    n = checks.integer("trials", trials, 0, "count them")
    return _share(s, n, checks.rate("alpha", alpha))


@lru_cache(maxsize=1 << 14)
def _share(s: int, n: int, level: float) -> Interval:
    """The interval, cached because a search needs the same counts repeatedly."""
    bar = special.betaln(0.5 + s, 0.5 + n - s) - special.betaln(0.5, 0.5) + math.log(level)

    def keeps(p: float) -> bool:
        return float(special.xlogy(s, p) + special.xlog1py(n - s, -p)) >= bar

    middle = s / n if n else 0.5
    return Interval(0.0 if keeps(0.0) else _root(keeps, middle, 0.0), 1.0 if keeps(1.0) else _root(keeps, middle, 1.0))


def _root(keeps: Callable[[float], bool], inside: float, outside: float) -> float:
    """The end of the range from `inside` to `outside` that is kept, rounded to the safe side."""
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if keeps(middle) else (inside, middle)
    return outside


def quantile(values: Any, probability: float = 0.5, alpha: float = 0.05) -> Interval:
    """Interval for a quantile, valid at every stopping time: q is excluded if #{x <= q} contradicts it.

    The count of numbers at most q is tested as in `share`, so no moment of the numbers has to exist.

    Arguments: `values` [n], infinite ones allowed; `probability` of the quantile; `alpha` as in `share`. Returns order
    statistics, infinite where the numbers cannot bound the quantile yet. Raises `InputError` for NaN. Assumes
    independent numbers of one distribution.

    >>> quantile(np.arange(101.0)).low, quantile(np.arange(101.0)).high
    (33.0, 67.0)
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    checks.require(x.ndim == 1 and not np.isnan(x).any(), "values", "NaN", "numbers", "give one number per unit")
    p = checks.rate("probability", probability, "give a level inside (0, 1)")
    n = len(x)
    s = np.arange(n + 1)
    bar = special.betaln(0.5 + s, 0.5 + n - s) - special.betaln(0.5, 0.5) + math.log(checks.rate("alpha", alpha))
    left = np.flatnonzero(special.xlogy(s, p) + special.xlog1py(n - s, -p) >= bar)
    # With s numbers at most q, the quantile lies between the s-th number and the next.
    padded = np.concatenate([[-math.inf], x, [math.inf]])
    return Interval(float(padded[left[0]]), float(padded[left[-1] + 1]))


def planned(values: Any, looks: int, alpha: float = 0.05, event: tuple[float, float] = (0.0, 0.0)) -> Interval:
    """Interval for a mean at one of K looks at n, 2n, 4n, ... numbers, which allows for events too rare to be observed.

    An event of probability l/n is missed by all n numbers with probability e^-l and moves their mean by X l/n. So a
    side reaches as far as the worst l needs:
        max over 0 <= l <= log(1/(0.8 alpha)) of  X l/n + t_K(alpha e^l) s/sqrt(n).
    Normal scores whose correlation is 2^(-|i-j|/2) exceed c_K(a) at any look with probability a; t_K(a) is the quantile
    of Student's t at the tail of c_K(a), 0 for a >= 1. X is three times the largest deviation from the mean to that
    side, or the caller's `event` where that is larger. Nothing is added while X is below 0.35 s sqrt(n).

    Arguments: `values` [n], all until now; `looks` K; `alpha` of all looks together; `event`, the largest fall and rise
    of a number in an event that none of them shows. Units of `values`. Raises `InputError` for fewer than two numbers.
    Assumes that no such event is larger. At five looks to 1,024 it misses in 3 percent for normal and for exponential
    numbers, 5 for lognormal(1.5), 3 for Pareto(2.2), but 11 for lognormal(2) and 15 for Pareto(1.5). Where a share of
    the numbers, whatever it is, loses everything, the mean lies on the same side of it in at most 5.3 percent (exact)
    if `event` says so; if not, in nearly all cases. Source: Pocock (1977) for c_K; the rest is this package's.

    >>> interval = planned([1.0, 2.0, 3.0, 4.0], looks=1)
    >>> round(interval.low, 3), round(interval.high, 3)
    (-1.121, 6.121)
    """
    x = checks.finite_array("values", values, (None,), "give one number per unit")
    return around(uncertainty.between(x), looks, alpha, unseen(x, event))


def unseen(x: np.ndarray, event: tuple[float, float]) -> tuple[float, float]:
    """Largest fall and rise assumed for a number in an unseen event: `event`, or three times the largest observed."""
    mean = float(x.mean())
    return max(event[0], BEYOND * (mean - float(x.min()))), max(event[1], BEYOND * (float(x.max()) - mean))


def around(estimate: Any, looks: int, alpha: float = 0.05, event: tuple[float, float] = (0.0, 0.0)) -> Interval:
    """The interval of `planned` around an `Estimate` from n samples, with unseen falls and rises of at most `event`."""
    missed, bounds = _worst(looks, checks.rate("alpha", alpha), estimate.freedom)
    sizes = (x / estimate.samples for x in event)
    fall, rise = (np.max(missed * x + bounds * estimate.error) if math.isfinite(x) else x for x in sizes)
    return Interval(float(estimate.value - fall), float(estimate.value + rise))


@lru_cache(maxsize=256)
def _worst(looks: int, alpha: float, freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """l from 0 to its maximum and t_K(alpha e^l), `[CHANCES + 1]` each."""
    missed = np.linspace(0.0, -math.log(MISSED * alpha), CHANCES + 1)
    levels = np.minimum(alpha * np.exp(missed), 1.0)
    tails = [2.0 * float(special.ndtr(-common_bound(looks, float(level)))) for level in levels]
    return missed, np.array([uncertainty.critical(tail, freedom) for tail in tails])


@lru_cache(maxsize=256)
def common_bound(looks: int, alpha: float = 0.05) -> float:
    """Bound c that z-scores at any of K looks exceed with probability `alpha`, when each look doubles the sample.

    P(max_k |z_k| > c) = alpha, z_1 standard normal, z_k = (z_{k-1} + w_k)/sqrt(2) with independent standard normal w_k:
    one number is integrated after another. Raises `InputError` below one look.

    >>> round(common_bound(1), 3), round(common_bound(6), 3)
    (1.96, 2.546)
    """
    checks.integer("looks", looks, 1, "plan at least one look")
    low, high = 0.0, TAIL
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _exceeded(middle, looks) > alpha else (low, middle)
    return high


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [-1, 1], cached: computing them takes 0.1 s, and a bound needs them fifty times."""
    return np.polynomial.legendre.leggauss(NODES)


def _exceeded(bound: float, looks: int) -> float:
    """Probability that any of the scores leaves [-bound, bound]."""
    nodes, weights = _rule()
    z, w = bound * nodes, bound * weights
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    # Of z_k given z_{k-1} the mean is z_{k-1}/sqrt(2), the variance 1/2.
    step = np.exp(-((z[:, None] - z[None, :] / math.sqrt(2.0)) ** 2)) / math.sqrt(math.pi)
    for _ in range(looks - 1):
        density = step @ (w * density)
    return 1.0 - float(w @ density)


def heavy(numbers: np.ndarray) -> bool:
    """Whether one number contributes more than half of the variance, so that the sample is too small for its mean.

    >>> heavy(np.array([0.0, 0.1, -0.1, 0.05, 50.0])), heavy(np.arange(10.0))
    (True, False)
    """
    apart = np.abs(numbers - numbers.mean())
    # In units of the largest: squares of what has diverged would overflow.
    squares = (apart / max(float(apart.max()), math.ulp(0.0))) ** 2
    return bool(len(numbers) > 3 and squares.max() > HEAVY * squares.sum())


def betting_decides(bounds: tuple[float, float], most: int, smallest: float) -> bool:
    """Whether bets on `most` numbers could detect differences of the smallest effect.

    However small the variance, n numbers of range B leave at least the half-width B log(2 n) / n: an event of that
    probability and size may not have been observed yet.
    """
    reach = 2.0 * (bounds[1] - bounds[0])
    return reach * math.log(2.0 * most) / most < smallest / 2.0


def events(a: np.ndarray, b: np.ndarray, bounds: tuple[float, float]) -> tuple[float, float]:
    """Largest fall and rise of a difference a - b if one arm moves from its mean to an end of the range [l, h].

    max(mean a - l, h - mean b) and max(h - mean a, mean b - l). If the numbers `a`, `b` `[n]` are unbounded, both are
    the largest magnitude observed: an arm loses everything, or doubles.

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
) -> tuple[float, Interval, Interval, float]:
    """The difference statistic of paired numbers `a`, `b` `[n]`, and its interval at level `alpha` over all looks.

    Also returned are the interval without allowance for unseen events, and the largest change of a number that the
    first interval allows for (0: it assumes nothing).
    """
    b = b[: len(a)]
    x = a - b
    value = float(x.mean())
    if statistic == "median":
        value, interval = float(np.median(x)), quantile(x, 0.5, alpha)
    elif statistic == "improvement":
        wins = np.sign(x) / 2.0
        value, interval = float(wins.mean()), betting(wins, -0.5, 0.5, alpha)
    elif statistic == "iqm":
        estimate = trimmed(a, b)
        value, interval = estimate.value, around(estimate, looks, alpha)
    elif kind == "exact":
        interval = Interval(value, value)
    elif kind == "betting":
        interval = betting(x, bounds[0] - bounds[1], bounds[1] - bounds[0], alpha)
    else:
        event = unseen(x, events(a, b, bounds))
        interval = planned(x, looks, alpha, event)
        return value, interval, planned(x, looks, alpha), max(event)
    return value, interval, interval, 0.0


def ratio(
    kind: str, a: np.ndarray, b: np.ndarray, bounds: tuple[float, float], looks: int, alpha: float
) -> tuple[float, float, float]:
    """The ratio mean(a) / mean(b) of paired positive numbers, and its interval.

    The interval contains all r for which the interval of mean(a - r b) contains 0. So it excludes 1 exactly if the
    interval of the difference excludes 0, and it counts looks likewise. Arguments as in `difference`, for the mean.
    Source: Fieller (1954), with the intervals of this module.
    """
    b, (low, high) = b[: len(a)], bounds
    mean, base = float(a.mean()), float(b.mean())
    if not base > 0.0 or not mean > 0.0:
        return math.nan, 0.0, math.inf

    def keeps(r: float) -> bool:
        x = a - r * b
        if kind == "betting":
            ends = betting(x, low - r * high, high - r * low, alpha)
        else:
            fall, rise = max(mean - low, r * (high - base)), max(high - mean, r * (base - low))
            ends = planned(x, looks, alpha, unseen(x, (fall, rise)))
        return ends.low <= 0.0 <= ends.high

    value = mean / base
    if kind == "exact":
        return value, value, value
    return value, _root(keeps, value, 0.0), 1.0 / _root(lambda s: keeps(1.0 / s), 1.0 / value, math.ulp(0.0) * 2**60)


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
