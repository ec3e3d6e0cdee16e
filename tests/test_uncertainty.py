"""Intervals cover as often as they say, and the usual mistakes do not.

Coverage is counted at level 0.05 over 2,000 seeded repetitions: the band [56, 151] rejects right errors with
probability 1e-6 and passes an error that is 20 percent too small (rate 0.117) with probability 1e-8.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from asyncsim.base import uncertainty
from asyncsim.base.checks import InputError
from tests.statistics import assert_rate, binomial_band

REPEATS = 2000


def misses(estimates, truth):
    """How many intervals at level 0.05 leave out the truth."""
    return sum(abs(e.value - truth) > uncertainty.critical(0.05, e.freedom) * e.error for e in estimates)


def clustered(seed, counts=(4,) * 8):
    """Replicates with half of their variance common to a realization, [REPEATS, R], and the realization of each."""
    rng = np.random.default_rng(seed)
    realization = np.repeat(np.arange(len(counts)), counts)
    common = rng.normal(size=(REPEATS, len(counts)))[:, realization]
    return common + rng.normal(size=(REPEATS, len(realization))), realization


def test_between_covers_when_realizations_are_the_unit():
    values, realization = clustered(1)
    assert_rate(misses([uncertainty.between(v, realization, random=True) for v in values], 0.0), REPEATS, 0.05)


def test_between_replicates_of_shared_realizations_does_not_cover():
    values, _ = clustered(1)
    assert misses([uncertainty.between(v) for v in values], 0.0) > 2 * binomial_band(REPEATS, 0.05)[1]


def test_between_weights_unequal_realizations_by_their_replicates():
    values, realization = clustered(2, counts=(1, 2, 3, 6))
    estimate = uncertainty.between(values[0], realization, random=True)
    means = np.array([values[0][realization == m].mean() for m in range(4)])
    share = np.array([1, 2, 3, 6]) / 12
    variance = 4 / 3 * ((share * (means - values[0].mean())) ** 2).sum()
    assert estimate.value == pytest.approx(values[0].mean(), rel=1e-12)
    assert estimate.error == pytest.approx(math.sqrt(variance), rel=1e-12)


def test_one_random_realization_is_marked():
    estimate = uncertainty.between([1.0, 2.0, 3.0], [0, 0, 0], random=True)
    assert not estimate.independent
    assert uncertainty.between([1.0, 2.0, 3.0], [0, 0, 0], random=False).independent
    assert uncertainty.between([1.0, 2.0, 3.0], [5, 5, 7], random=True).independent


@given(
    hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-1e6, 1e6)), st.floats(-1e3, 1e3), st.floats(0.1, 10)
)
def test_between_is_the_textbook_error_and_moves_with_units(values, shift, factor):
    estimate = uncertainty.between(values)
    assert estimate.error == pytest.approx(values.std(ddof=1) / math.sqrt(len(values)), rel=1e-9, abs=1e-9)
    moved = uncertainty.between(shift + factor * values)
    assert moved.value == pytest.approx(shift + factor * estimate.value, rel=1e-9, abs=1e-6)
    assert moved.error == pytest.approx(factor * estimate.error, rel=1e-6, abs=1e-6)


def test_axes_after_the_first_belong_to_a_replicate():
    values = np.random.default_rng(3).normal(size=(6, 5, 2))
    assert uncertainty.between(values) == uncertainty.between(values.mean(axis=(1, 2)))


def test_ratio_covers_and_pairing_matters():
    rng = np.random.default_rng(4)
    bottom = 5.0 + rng.normal(size=(REPEATS, 50))
    top = 2.0 * bottom + 0.1 * rng.normal(size=bottom.shape)
    assert_rate(misses([uncertainty.ratio(t, b) for t, b in zip(top, bottom, strict=True)], 2.0), REPEATS, 0.05)
    # Unpaired, the common part no longer cancels and the interval is far too wide.
    shuffled = [uncertainty.ratio(t, b[::-1]) for t, b in zip(top, bottom, strict=True)]
    assert misses(shuffled, 2.0) < binomial_band(REPEATS, 0.05)[0]


def test_batch_means_cover_a_correlated_series_and_single_numbers_do_not():
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(3200, REPEATS))
    series = np.empty_like(noise)
    series[0] = noise[0] / math.sqrt(1 - 0.8**2)
    for t in range(1, len(noise)):
        series[t] = 0.8 * series[t - 1] + noise[t]
    # Batches of 100 at correlation time 5 understate the error by 2 percent: a rate of 0.056.
    assert_rate(misses([uncertainty.batch_means(s, 32) for s in series.T], 0.0), REPEATS, 0.056)
    assert misses([uncertainty.batch_means(s, 3200) for s in series.T], 0.0) > 2 * binomial_band(REPEATS, 0.05)[1]


def test_batch_means_leaves_out_the_oldest():
    assert uncertainty.batch_means([100.0, 1.0, 2.0, 3.0, 4.0], 2) == uncertainty.batch_means([1.0, 2.0, 3.0, 4.0], 2)


def test_bootstrap_of_a_mean_is_its_standard_error():
    # Relative standard deviation of a bootstrap error over d draws: 1/sqrt(2d) = 0.008 here; 6 of them are less than
    # the 0.069 by which eight rows without the factor for the missing degree of freedom would fall short.
    values = np.random.default_rng(6).normal(size=(8, 3))
    estimate = uncertainty.bootstrap(values, np.mean, draws=8000, seed=1)
    exact = uncertainty.between(values)
    assert estimate.error == pytest.approx(exact.error, rel=6 / math.sqrt(2 * 8000))
    assert estimate.value == pytest.approx(exact.value, rel=1e-12)
    assert estimate == uncertainty.bootstrap(values, np.mean, draws=8000, seed=1)
    assert estimate.error != uncertainty.bootstrap(values, np.mean, draws=8000, seed=2).error


def test_slope_covers_in_plain_and_log_axes():
    rng = np.random.default_rng(7)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    common = rng.normal(size=(REPEATS, 64, 1))
    own = rng.normal(size=(REPEATS, 64, 4))
    linear = 1.0 + 3.0 * x + x * common + own
    power = x**1.5 * np.exp(0.2 * common + 0.2 * own - 0.04)
    assert_rate(misses([uncertainty.slope(x, y) for y in linear], 3.0), REPEATS, 0.05)
    assert_rate(misses([uncertainty.slope(x, y, log=True) for y in power], 1.5), REPEATS, 0.05)


def test_slope_carries_the_noise_that_rows_share():
    # All noise is one factor per row: a fit that took columns as independent would see sqrt(2) of it or less.
    x = np.array([1.0, 3.0])
    rows = np.array([[-1.0, 1.0], [1.0, -1.0], [-2.0, 2.0], [2.0, -2.0]])
    assert uncertainty.slope(x, rows).error == uncertainty.between((rows[:, 1] - rows[:, 0]) / 2).error


def test_proportion_covers_and_never_claims_certainty():
    hits = np.random.default_rng(8).binomial(200, 0.3, size=REPEATS)
    # Discreteness moves the rate: summed exactly over the counts.
    law = stats.binom(200, 0.3)
    exact = sum(law.pmf(k) for k in range(201) if misses([uncertainty.proportion(k, 200)], 0.3))
    assert 0.03 < exact < 0.07
    assert_rate(misses([uncertainty.proportion(int(k), 200) for k in hits], 0.3), REPEATS, exact)
    assert uncertainty.proportion(0, 5).error > 0 and uncertainty.proportion(5, 5).error > 0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: uncertainty.between([]), "values"),
        (lambda: uncertainty.between(3.0), "values"),
        (lambda: uncertainty.between([1.0]), "replicates"),
        (lambda: uncertainty.between([1.0, math.nan]), "values"),
        (lambda: uncertainty.between(["a", "b"]), "values"),
        (lambda: uncertainty.between([1.0, 2.0], random=True), "realization"),
        (lambda: uncertainty.between([1.0, 2.0], [0, 1, 2], random=True), "realization"),
        (lambda: uncertainty.between([1.0, 2.0], [0.5, 1.0], random=True), "realization"),
        (lambda: uncertainty.ratio([1.0, 2.0], [1.0, -1.0]), "denominators"),
        (lambda: uncertainty.ratio([1.0, 2.0], [1.0, 1.0, 1.0]), "denominators"),
        (lambda: uncertainty.batch_means([1.0, math.inf]), "series"),
        (lambda: uncertainty.batch_means([1.0, 2.0], batches=3), "batches"),
        (lambda: uncertainty.bootstrap([1.0, 2.0], lambda v: math.nan), "statistic"),
        (lambda: uncertainty.bootstrap([1.0, 2.0], np.mean, draws=1), "draws"),
        (lambda: uncertainty.slope([1.0, 1.0], [[1.0, 2.0], [1.0, 2.0]]), "x"),
        (lambda: uncertainty.slope([1.0, 2.0], [[1.0, 2.0]]), "replicates"),
        (lambda: uncertainty.slope([1.0, 2.0], [[1.0], [2.0]]), "y_samples"),
        (lambda: uncertainty.slope([0.0, 2.0], [[1.0, 2.0], [1.0, 2.0]], log=True), "smallest x"),
        (lambda: uncertainty.proportion(0, 0), "trials"),
        (lambda: uncertainty.proportion(3, 2), "successes"),
        (lambda: uncertainty.quantile(1.0), "probability"),
        (lambda: uncertainty.critical(0.05, 0.0), "freedom"),
        (lambda: uncertainty.critical(0.05, sides=3), "sides"),
    ],
)
def test_input_that_has_no_error_bar_is_refused_by_name(call, field):
    with pytest.raises(InputError) as refusal:
        call()
    assert field in refusal.value.field
    assert "\n" not in str(refusal.value)


@given(st.floats(1e-12, 0.999), st.floats(0.5, 1e6))
def test_critical_values_leave_the_stated_tail(level, freedom):
    value = uncertainty.critical(level, freedom)
    assert 2 * stats.t.sf(value, freedom) == pytest.approx(level, rel=1e-6)
    assert uncertainty.critical(level, freedom, sides=1) <= value
