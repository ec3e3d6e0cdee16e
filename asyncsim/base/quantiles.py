"""Quantiles of the t distribution, critical values of intervals, and quantiles of staleness."""

import math
from typing import NamedTuple

from scipy import special

from asyncsim.base import checks


def quantile(probability: float, freedom: float = math.inf) -> float:
    """Quantile of the t distribution with `freedom` degrees of freedom; the normal quantile if that is infinite.

    Arguments: `probability` in (0, 1); `freedom` > 0. Returns a pure number. Raises `InputError` outside these bounds.
    """
    checks.rate("probability", probability, "give a level strictly inside (0, 1)")
    checks.real("freedom", freedom, "estimate the error from two independent units", 0.0, open_low=True, finite=False)
    return float(special.ndtri(probability) if math.isinf(freedom) else special.stdtrit(freedom, probability))


def critical(false_fail: float, freedom: float = math.inf, sides: int = 2) -> float:
    """Critical value in standard errors at the error rate `false_fail`: c = t^{-1}(1 - false_fail/sides).

    Arguments: `false_fail` in (0, 1); `freedom` of the error (infinite: normal); `sides`, 1 or 2. Returns a pure
    number. Raises `InputError` for other values. Assumes a normal estimate with an independent error.
    """
    checks.one_of("sides", sides, (1, 2), "test against one side or both")
    # The lower tail keeps its precision at levels where 1 - false_fail rounds to 1.
    return -quantile(checks.real("false_fail", false_fail, "give a rate in (0, 1)", 0.0, 1.0) / sides, freedom)


class Tail(NamedTuple):
    """A quantile of integers, its 95 percent interval, batches per realization, and whether longer runs agree.

    >>> str(Tail(16, 15, 17, 800, True)), str(Tail(4, 4, 4, 400, True)), str(Tail(9, 8, 9, 400, False))
    ('16 [15, 17]', '4', 'about 9 [8, 9]')
    """

    value: int
    low: int
    high: int
    batches: int
    stands: bool

    def __str__(self) -> str:
        reach = f" [{self.low}, {self.high}]" if self.low < self.high else ""
        return f"{'' if self.stands else 'about '}{self.value}{reach}"
