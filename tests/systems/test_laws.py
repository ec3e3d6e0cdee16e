"""Laws: moments, quantiles, maxima, text, refused parameters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.base import laws, rng
from asyncsim.base.checks import InputError
from tests.statistics import assert_rate

LAWS = [
    laws.exponential(2.0),
    laws.lognormal(1.0, 0.8),
    laws.lognormal(3.0, 0.01),
    laws.pareto(0.5, 1.2),
    laws.gamma(2.0, 0.4),
    laws.gamma(1.0, 5.0),
    laws.empirical([0.5, 1.0, 4.0, 4.0]),
    laws.lognormal(2.0, 1.0, maximum=6.0),
]
DRAWS = 40_000
STREAM = rng.Stream(3, "work")


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_follow_the_survival(law):
    # Bands of false alarm 1e-6 at each of three points; a survival off by 0.02 is missed with probability < 1e-6.
    draws = law.sample(STREAM, 0, np.arange(DRAWS))
    for point in np.quantile(law.sample(STREAM, 1, np.arange(1001)), [0.1, 0.5, 0.9]):
        rate = float(law.survival(point))
        assert_rate(int((draws > point).sum()), DRAWS, rate)
        with pytest.raises(AssertionError):
            assert_rate(int((draws > point).sum()), DRAWS, rate + (0.02 if rate < 0.5 else -0.02))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_mean_and_maxima_follow_the_survival(law):
    assert law.expected_max(1) == law.mean()
    # E = integral of the survival, on a grid that knows nothing of the quadrature of the law.
    grid = np.concatenate([[0.0], np.geomspace(1e-12, 1e13, 1_000_001)])
    for n in (1, 2, 7):
        tail = 1.0 - (1.0 - law.survival(grid)) ** n
        # Steps of an empirical law fall between points; beyond the grid a Pareto tail of 1.2 leaves (1e13)^-0.2 / 0.2.
        rest = n * 0.5**1.2 * 1e13**-0.2 / 0.2 if law.kind == "pareto" else 0.0
        assert law.expected_max(n) == pytest.approx(np.trapezoid(tail, grid) + rest, rel=2e-4)


@pytest.mark.parametrize("law", [*LAWS, laws.constant(2.5)], ids=str)
def test_twins_and_text(law):
    samples = np.arange(2000)
    plain, compiled = law.sample(STREAM, 1, samples), law.sample(STREAM, 1, samples, compiled=True)
    np.testing.assert_allclose(plain, compiled, rtol=1e-13)
    assert (plain > 0).all()
    assert laws.Law.parse(str(law)) == law
    assert law.random == (law.kind != "constant")


def test_known_maxima():
    assert laws.exponential(1.0).expected_max(5) == pytest.approx(sum(1 / k for k in range(1, 6)), rel=1e-9)
    exact = math.gamma(17) * math.gamma(1 / 3) / math.gamma(17 - 2 / 3)
    assert laws.pareto(1.0, 1.5).expected_max(16) == pytest.approx(exact, rel=1e-8)
    assert laws.empirical([1.0, 2.0]).expected_max(2) == pytest.approx(1.75)


@given(mean=st.floats(0.01, 100.0), sigma=st.floats(0.0, 3.0), n=st.integers(2, 64))
def test_a_maximum_is_between_the_mean_and_the_sum(mean, sigma, n):
    law = laws.lognormal(mean, sigma)
    assert law.mean() * (1 - 1e-9) <= law.expected_max(n) <= n * law.mean() * (1 + 1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: laws.constant(0.0),
        lambda: laws.exponential(-1.0),
        lambda: laws.lognormal(1.0, -0.1),
        lambda: laws.pareto(1.0, math.inf),
        lambda: laws.gamma(math.nan, 1.0),
        lambda: laws.empirical([]),
        lambda: laws.empirical([1.0, 0.0]),
        lambda: laws.uniform(3, 1),
        lambda: laws.pareto(1.0, 1.0).mean(),
        lambda: laws.Law.parse("weibull:1"),
        lambda: laws.Law.parse("lognormal:1"),
        lambda: laws.Law.parse("gamma:1:1:-1"),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("text", ["lognormal:2:1", "gamma:2:0.5", "exponential:2", "pareto:0.5:1.2", "pareto:0.5:0.8"])
@pytest.mark.parametrize("maximum", [0.7, 5.0])
def test_one_number_more_is_a_maximum(text, maximum):
    """Moments and order statistics are integrals of the survival up to c; numbers that are drawn again are less."""
    law, uncut = laws.Law.parse(f"{text}:{maximum}"), laws.Law.parse(text)
    grid = np.concatenate([[0.0], np.geomspace(1e-12, maximum, 200_001)])
    tail = uncut.survival(grid)
    for n in (1, 8, 4096):
        assert law.expected_max(n) == pytest.approx(np.trapezoid(1.0 - (1.0 - tail) ** n, grid), rel=1e-7)
        assert law.expected_least(1, n) == pytest.approx(np.trapezoid(tail**n, grid), rel=1e-5)
    assert law.deviation() ** 2 == pytest.approx(np.trapezoid(2.0 * grid * tail, grid) - law.mean() ** 2, rel=1e-4)
    draws = np.minimum(uncut.sample(STREAM, 0, np.arange(DRAWS)), maximum)
    assert (law.sample(STREAM, 0, np.arange(DRAWS)) == draws).all() and laws.Law.parse(str(law)) == law != uncut
    assert abs(draws[draws < maximum].mean() / law.mean() - 1.0) > 0.04


def test_integer_law():
    assert (laws.uniform(0, 4), laws.uniform(2, 2)) == ((0.2,) * 5, (0.0, 0.0, 1.0))
