"""Quantiles of the t distribution, how many standard errors an interval reaches, and tails of simulated counts."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from asyncsim.base import checks


def quantile(probability: float, freedom: float = math.inf) -> float:
    """Quantile of the t distribution with `freedom` degrees of freedom; the normal one where it is infinite.

    Arguments: `probability` in (0, 1); `freedom` > 0. Returns a pure number. Raises `InputError` outside these bounds.

    >>> round(quantile(0.975), 3), round(quantile(0.975, 4), 3)
    (1.96, 2.776)
    """
    checks.real("probability", probability, "give a level strictly inside (0, 1)", 0.0, 1.0, open_low=True)
    checks.require(probability < 1.0, "probability", probability, "below 1", "give a level strictly inside (0, 1)")
    checks.real("freedom", freedom, "estimate the error from two independent units", 0.0, open_low=True, finite=False)
    return float(special.ndtri(probability) if math.isinf(freedom) else special.stdtrit(freedom, probability))


def critical(false_fail: float, freedom: float = math.inf, sides: int = 2) -> float:
    """Standard errors that a true value exceeds with probability `false_fail`: c = t^{-1}(1 - false_fail/sides).

    Arguments: `false_fail` in (0, 1); `freedom` of the error (infinite: normal); `sides`, 1 or 2. Returns a pure
    number. Raises `InputError` for other values. Assumes a normal estimate with an independent error.

    >>> round(critical(0.05), 3), round(critical(0.05, sides=1), 3)
    (1.96, 1.645)
    """
    checks.one_of("sides", sides, (1, 2), "test against one side or both")
    # The lower tail keeps its precision at levels where 1 - false_fail rounds to 1.
    return -quantile(checks.real("false_fail", false_fail, "give a rate in (0, 1)", 0.0, 1.0) / sides, freedom)


class Tail(NamedTuple):
    """A quantile of whole numbers with its 95 percent interval, and the `batches` of each realization behind it.

    `stands`: whether realizations of half and a quarter of the length give the same, as far as their intervals tell.
    """

    value: int
    low: int
    high: int
    batches: int
    stands: bool

    def __str__(self) -> str:
        """The value, and its interval where that has a width.

        >>> str(Tail(16, 15, 17, 800, True)), str(Tail(4, 4, 4, 400, True)), str(Tail(9, 8, 9, 400, False))
        ('16 [15, 17]', '4', 'at least 9 [8, 9]')
        """
        reach = f" [{self.low}, {self.high}]" if self.low < self.high else ""
        return f"{'' if self.stands else 'at least '}{self.value}{reach}"


def tail(
    counts: Callable[[int], Sequence[np.ndarray]], batches: int, most: int, share: float = 0.99, alpha: float = 0.05
) -> Tail:
    """The least k with F(k) >= `share` of what a simulation counts, in realizations lengthened until it stands.

    F(k), the mean over realizations of the share of numbers <= k, has a t interval, since realizations are independent
    whatever one of them does; the quantile's interval has every k whose interval of F reaches the share. A short run
    ends before the rarest numbers have come, and its quantile is too small. So lengths are doubled, up to `most`
    batches, until the intervals of two lengths hold the value of the next, or one without a width does.

    Arguments: `counts`, of so many batches the counts of 0, 1, ... in each realization; `batches` to begin with;
    `alpha`, error rate of the interval. Source: Woodruff (1952), over realizations.

    >>> tail(lambda batches: [np.array([batches - 2, 1, 1])] * 4, 100, 400)
    Tail(value=1, low=1, high=1, batches=200, stands=False)
    """
    before = list[Tail]()
    while True:
        rows = counts(batches)
        table = np.zeros((len(rows), max(map(len, rows))))
        for row, own in zip(table, rows, strict=True):
            row[: len(own)] = own
        shares = np.cumsum(table, axis=1) / table.sum(axis=1, keepdims=True)
        mean, half = shares.mean(0), np.zeros(shares.shape[1])
        if len(rows) > 1:
            half = critical(alpha, len(rows) - 1) * shares.std(0, ddof=1) / math.sqrt(len(rows))
        wanted = share * (1.0 - 1e-12)
        value, low, high = (int(np.argmax(each >= wanted)) for each in (mean, mean + half, mean - half))
        same = [each.low <= value <= each.high for each in before[-2:]]
        stands = all(same) and (len(same) > 1 or (bool(same) and before[-1].low == before[-1].high))
        if stands or 2 * batches > most:
            return Tail(value, low, high, batches, stands)
        before, batches = [*before, Tail(value, low, high, batches, False)], 2 * batches
