"""The stated error rates are the true ones, counted over seeded repetitions of a normal mean.

Bands reject a right program with probability 1e-6 each. At 4,000 repetitions a rate of 0.05 that is really 0.10 passes
with probability below 1e-12; a false_fail of 0.02 that is really 0.04 below 1e-5.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.base import uncertainty
from asyncsim.base.checks import InputError
from asyncsim.base.records import Estimate
from asyncsim.validation import judge, missed_rate, sample_size
from asyncsim.validation.judging import sides
from tests.statistics import assert_rate, binomial_band

REPEATS = 4000
FAIL, PASS, EFFECT = 0.02, 0.05, 0.05


def verdicts(kind, units, shift, spread, seed, comparisons=1, predicted=1.0):
    """Verdicts of REPEATS means of `units` normal numbers whose true value lies `shift` above the prediction."""
    values = np.random.default_rng(seed).normal(predicted + shift, spread, size=(REPEATS, units))
    rows = [
        judge(uncertainty.between(v), predicted, kind, abs(predicted), EFFECT, FAIL, PASS, comparisons) for v in values
    ]
    return [row.verdict for row in rows], rows


@pytest.mark.parametrize("kind", ["expectation", "ordering", "bound"])
@pytest.mark.parametrize("units", [4, 60])
def test_false_fail_is_the_stated_rate_at_any_sample_size(kind, units):
    found, rows = verdicts(kind, units, 0.0, 0.1, seed=11)
    assert_rate(found.count("violated"), REPEATS, FAIL)
    assert {row.false_fail for row in rows} == {FAIL}


def test_bonferroni_divides_the_rate():
    found, rows = verdicts("expectation", 20, 0.0, 0.1, seed=12, comparisons=4)
    assert_rate(found.count("violated"), REPEATS, FAIL / 4)
    assert {row.false_fail for row in rows} == {FAIL / 4}


@pytest.mark.parametrize("kind", ["expectation", "ordering"])
@pytest.mark.parametrize("units", [5, 40])
def test_missed_rate_is_the_rate_at_which_a_deviation_passes(kind, units):
    # Chosen so that about half, then few, of the deviations are found.
    spread = EFFECT * math.sqrt(units) / (3.0 if units == 40 else 5.0)
    found, _ = verdicts(kind, units, EFFECT, spread, seed=13)
    crit = uncertainty.critical(FAIL, units - 1.0, sides(kind))
    assert_rate(
        REPEATS - found.count("violated"),
        REPEATS,
        missed_rate(EFFECT, spread / math.sqrt(units), 0.0, crit, units - 1.0),
    )


@pytest.mark.parametrize("kind", ["expectation", "ordering"])
def test_designed_size_keeps_both_rates_and_decides(kind):
    units = sample_size(0.1, EFFECT, 1.0, FAIL, PASS, kind=kind)
    true, _ = verdicts(kind, units, 0.0, 0.1, seed=14)
    shifted, _ = verdicts(kind, units, EFFECT, 0.1, seed=15)
    assert_rate(true.count("violated"), REPEATS, FAIL)
    assert true.count("held") > 0.96 * REPEATS
    assert shifted.count("held") <= binomial_band(REPEATS, PASS)[1]
    # The allowance in the size is small: the rate is used, not avoided.
    assert shifted.count("held") > 0


def test_half_the_designed_size_does_not_keep_them():
    units = sample_size(0.1, EFFECT, 1.0, FAIL, PASS) // 2
    shifted, _ = verdicts("expectation", units, EFFECT, 0.1, seed=16)
    assert REPEATS - shifted.count("violated") > binomial_band(REPEATS, PASS)[1]
    # ... and the judgment knows: what is not violated is inconclusive.
    assert shifted.count("held") <= binomial_band(REPEATS, PASS)[1]
    assert shifted.count("inconclusive") > 0


@given(st.floats(1e-3, 1e3), st.floats(0.005, 0.5), st.floats(1e-5, 0.1), st.floats(0.01, 0.3), st.integers(1, 50))
def test_designed_size_is_enough_and_not_lavish(spread, effect, false_fail, false_pass, comparisons):
    units = sample_size(spread, effect, 10.0, false_fail, false_pass, comparisons)
    alpha, freedom = false_fail / comparisons, units - 1.0
    error = spread / math.sqrt(units)
    assert missed_rate(effect * 10.0, error, 0.0, uncertainty.critical(alpha, freedom), freedom) <= false_pass
    ideal = ((uncertainty.critical(alpha) + uncertainty.critical(false_pass, sides=1)) * spread / (effect * 10.0)) ** 2
    assert ideal <= units
    if ideal > 1000:
        assert units <= 1.25 * ideal


@given(
    st.floats(0, 10), st.floats(0, 10), st.floats(0, 10), st.floats(1.0, 1e6) | st.just(math.inf), st.floats(1e-6, 0.5)
)
def test_missed_rate_is_a_probability_that_falls_with_the_deviation(deviation, error, tolerance, freedom, level):
    crit = uncertainty.critical(level, freedom)
    small = missed_rate(deviation, error, tolerance, crit, freedom)
    large = missed_rate(deviation + 1.0, error, tolerance, crit, freedom)
    assert 0.0 <= large <= small + 1e-9 and small <= 1.0


@pytest.mark.parametrize("change", [{"effect": 0.0}, {"scale": 0.0}, {"spread": -1.0}, {"false_pass": 0.0},
                                    {"false_fail": 1.0}, {"comparisons": 0}, {"spread": math.nan}])  # fmt: skip
def test_sample_size_refuses_by_name(change):
    arguments = {"spread": 1.0, "effect": 0.05, "scale": 1.0, "false_fail": 1e-3, "false_pass": 0.05, **change}
    with pytest.raises(InputError) as refusal:
        sample_size(**arguments)
    assert refusal.value.field == next(iter(change))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["expectation", "ordering"])
def test_rates_at_the_levels_of_the_demonstration(kind):
    # false_fail 1e-3 over 1e5 repetitions drawn as (mean, variance) pairs: the band is [57, 153].
    units, repeats = sample_size(0.1, EFFECT, 1.0, 1e-3, PASS, kind=kind), 100_000
    rng = np.random.default_rng(17)
    means = rng.normal(1.0, 0.1 / math.sqrt(units), size=repeats)
    errors = 0.1 * np.sqrt(rng.chisquare(units - 1, size=repeats) / (units - 1) / units)
    for shift, verdict, rate in ((0.0, "violated", 1e-3), (EFFECT, "held", PASS)):
        estimates = [Estimate(m + shift, e, units - 1.0) for m, e in zip(means, errors, strict=True)]
        rows = [judge(estimate, 1.0, kind, 1.0, EFFECT) for estimate in estimates]
        count = sum(row.verdict == verdict for row in rows)
        if shift:
            assert 0 < count <= binomial_band(repeats, rate)[1]
        else:
            assert_rate(count, repeats, rate)
