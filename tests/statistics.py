"""Bands for counts in statistical tests."""

from scipy import stats

FALSE_ALARM = 1e-6
"""Chance that one band rejects a right program, over the choice of its seed, which is fixed."""


def binomial_band(trials: int, rate: float, false_alarm: float = FALSE_ALARM) -> tuple[int, int]:
    """Counts [low, high] that a binomial of this rate leaves with probability below `false_alarm`.

    >>> binomial_band(2000, 0.05)
    (56, 151)
    """
    law = stats.binom(trials, rate)
    return int(law.ppf(false_alarm / 2)), int(law.isf(false_alarm / 2))


def assert_rate(count: int, trials: int, rate: float) -> None:
    """The count of a rate that is claimed to be exactly `rate`."""
    assert trials > 0
    low, high = binomial_band(trials, rate)
    assert low <= count <= high, f"{count} of {trials} is outside [{low}, {high}] for a rate of {rate:g}"
