"""Ratio statistics: the properties that the field's bugs break, with the edges drawn by hypothesis."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from asyncsim.step import ratios
from tests.contracts import ends

logs = hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 12)), elements=st.floats(-700, 700))
STATISTICS = {
    "ess": ratios.ess,
    "mean_weight": ratios.mean_weight,
    "chi_square": ratios.chi_square,
    "max_weight_share": ratios.max_weight_share,
    "mean": lambda log, mass: ratios.log_moments(log, mass)[0],
    "variance": lambda log, mass: ratios.log_moments(log, mass)[1],
    "log_mean_weight": ratios.log_mean_weight,
    "standard_deviation": ratios.standard_deviation,
}
statistic = pytest.mark.parametrize("name", STATISTICS)


def equal(log):
    return torch.full_like(log, 1.0 / log.shape[-1])


@given(values=logs)
def test_ess_range(values):
    log = torch.from_numpy(values)
    found = ratios.ess(log, equal(log))
    assert ((found >= 1.0 / log.shape[-1] * (1 - 1e-12)) & (found <= 1 + 1e-12)).all()


@given(values=hnp.arrays(np.float64, (2, 6), elements=st.floats(-5, 5)), power=st.integers(-8, 8))
def test_ess_does_not_see_a_common_factor(values, power):
    """An absolute epsilon breaks this: 16 equal weights of 1e-5 read .138."""
    log = torch.from_numpy(values)
    for found in (ratios.ess, ratios.max_weight_share):
        torch.testing.assert_close(
            found(log, equal(log)), found(log + power * math.log(10.0), equal(log)), rtol=1e-9, atol=0
        )


@given(values=hnp.arrays(np.float64, (2, 7), elements=st.floats(-5, 5)), seed=st.integers(0, 100))
@statistic
def test_order_does_not_matter(name, values, seed):
    log = torch.from_numpy(values)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(7))
    one, two = (STATISTICS[name](x, equal(x)) for x in (log, log[:, order]))
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@given(values=hnp.arrays(np.float64, (1, 5), elements=st.floats(-5, 5)))
@statistic
def test_formulas(name, values):
    w = np.exp(values[0])
    expected = {
        "ess": w.mean() ** 2 / (w**2).mean(),
        "mean_weight": w.mean(),
        "chi_square": (w**2).mean() - 1,
        "max_weight_share": w.max() / w.sum(),
        "mean": values.mean(),
        "variance": values.var(),
        "log_mean_weight": np.log(w.mean()),
        "standard_deviation": w.std(),
    }[name]
    log = torch.from_numpy(values)
    assert STATISTICS[name](log, equal(log)).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", sorted(set(STATISTICS) - {"max_weight_share"}))
def test_mass_is_multiplicity_and_absent_cells_do_not_count(name):
    """Mass of several equal samples in one cell; whatever stands on a cell of mass 0 is unheard."""
    cells = torch.tensor([[0.3, -1.0, math.nan]], dtype=torch.float64)
    each = torch.tensor([[0.3, 0.3, 0.3, -1.0]], dtype=torch.float64)
    mass = torch.tensor([[0.75, 0.25, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(STATISTICS[name](cells, mass), STATISTICS[name](each, equal(each)))


@statistic
def test_replicates_share_a_mass(name):
    """A mass given once for all replicates is that of each."""
    log = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 2, 4)))
    once = torch.full((1, 2, 4), 1 / 8).double()
    assert torch.equal(STATISTICS[name](log, once), STATISTICS[name](log, once.expand(3, -1, -1).contiguous()))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@statistic
def test_a_broken_log_ratio_is_not_hidden(name, bad):
    log = torch.tensor([[0.0, bad, 1.0], [0.0, 0.5, 1.0]], dtype=torch.float64)
    found = STATISTICS[name](log, equal(log))
    assert not torch.isfinite(found[0]) and torch.isfinite(found[1])


def test_ess_at_both_ends():
    """All weight on one of a thousand: 1/1000, far below any floor of a clamped statistic; equal weights: exactly 1."""
    log = torch.full((2, 1000), -5.0, dtype=torch.float64)
    log[0, 17] = 900.0
    found = ratios.ess(log, equal(log))
    assert found[0].item() == pytest.approx(1e-3) and found[1].item() == pytest.approx(1.0, abs=1e-12)


@given(values=hnp.arrays(np.float64, (2, 8), elements=st.floats(-20, 20)), n=st.sampled_from([2, 4]))
def test_splitting_a_step_changes_nothing(values, n):
    """Groups and micro-batches are pooled: the shape behind the replicate axis does not matter."""
    log = torch.from_numpy(values)
    split = log.reshape(2, n, -1)
    for found in STATISTICS.values():
        assert torch.equal(found(log, equal(log)), found(split, torch.full_like(split, 1 / 8)))


def test_usable_ratio_is_limited_and_monotone():
    log = torch.tensor([-math.inf, -800.0, -20.0, 0.0, 20.0, 800.0, math.inf], dtype=torch.float64)
    weight = ratios.usable(log)
    assert torch.isfinite(weight).all() and (weight.diff() >= 0).all()
    assert weight[-1] == math.exp(20.0) and weight[3] == 1.0


@pytest.mark.parametrize("alpha", [0.7, 1.5, 4.0])
def test_tail_index_of_a_pareto_law(alpha):
    """Hill's estimate from m = 300 of 10,000 has relative error 1/sqrt(m) = 0.058.

    Beyond 5 errors: a right program fails for one seed in 10^6. An index 1.5 times as large is 8 errors away.
    """
    uniform = np.random.default_rng(0).random(10_000)
    log = torch.from_numpy(-np.log(uniform)[None] / alpha)
    found = ratios.tail_index(log).item()
    assert abs(found / alpha - 1) < 5 * 0.058
    assert abs(found / (1.5 * alpha) - 1) > 0.058


def test_tail_index_by_hand():
    """m = 2 of 10: the mean of the two largest logs over the third, which is not counted among them."""
    log = torch.tensor([[0.0, 9.0, -1.0, 4.0, 0.5, 5.0, 0.1, 0.2, 0.3, -2.0]], dtype=torch.float64)
    assert ratios.tail_index(log).item() == pytest.approx(1 / (0.5 * (9.0 + 5.0) - 4.0))


@pytest.mark.parametrize(
    ("samples", "largest"),
    [(6, 2), (9, 2), (10, 2), (11, 3), (225, 45), (226, 46), (256, 48), (512, 68), (10_000, 300)],
)
def test_tails_are_as_long_as_those_of_loo_and_arviz(samples, largest):
    """ceil(min(n/5, 3 sqrt n)): of log weights 0, 1, ... n - 1 the m largest lie (m + 1)/2 above the next, on average.

    loo, `n_pareto` at relative efficiency 1; ArviZ, `psislw`.
    """
    log = torch.arange(samples, dtype=torch.float64)[None]
    assert 2.0 / ratios.tail_index(log).item() - 1.0 == pytest.approx(largest, rel=1e-9)


def test_tail_index_at_its_ends():
    assert math.isinf(ratios.tail_index(torch.zeros(1, 50).double()).item())
    # Two of six, one of five.
    assert math.isinf(ratios.tail_index(torch.zeros(1, 6).double()).item())
    assert math.isnan(ratios.tail_index(torch.zeros(1, 5).double()).item())


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.1])
def test_pareto_k_of_pareto_weights(shape):
    """m = 300 of 10,000: the standard error of k is (1 + k)/sqrt(m), 0.075 to 0.12; of 64 batches' mean an eighth.

    Beyond 5 of these: a right program fails for one seed in 10^6. Planted: weights in place of their exceedances.
    """
    uniform = np.random.default_rng(1).random((64, 10_000))
    log = torch.from_numpy(-shape * np.log(uniform))
    found, limit = ratios.pareto_k(log).numpy(), 5 * (1 + shape) / math.sqrt(300 * 64)
    shrunk = (300 * shape + 5) / 310
    assert abs(found.mean() - shrunk) < limit
    assert found.std() == pytest.approx((1 + shape) * 300 / 310 / math.sqrt(300), rel=0.45)
    # Without a threshold to exceed, the least of the weights counts as 0 and all others stay where they are.
    largest = np.sort(log.exp().numpy(), axis=1)[:, -300:]
    wrong = np.array([ends.pareto_shape(np.append(np.zeros(9700), row)) for row in largest[:8]])
    assert abs(wrong.mean() - shrunk) > limit


@pytest.mark.parametrize("count", [21, 40, 257])
def test_pareto_k_is_the_printed_formula_and_near_the_most_likely_shape(count):
    log = np.random.default_rng(count).exponential(size=(4, count))
    found = ratios.pareto_k(torch.from_numpy(log)).numpy()
    np.testing.assert_allclose(found, [ends.pareto_shape(np.exp(row)) for row in log], rtol=1e-9)
    moved = torch.from_numpy(np.concatenate([log + 3.0, np.full((4, 5), 90.0)], axis=1))
    mass = torch.tensor([1.0 / count] * count + [0.0] * 5, dtype=torch.float64).expand(4, -1)
    np.testing.assert_allclose(ratios.pareto_k(moved, mass).numpy(), found, rtol=1e-9)
    if count == 257:
        weights = np.sort(np.exp(log[0]))
        likely = stats.genpareto.fit(weights[-49:] - weights[-50], floc=0.0)[0]
        assert found[0] == pytest.approx((49 * likely + 5) / 59, abs=0.3 * (1 + likely) / math.sqrt(49))


def test_pareto_k_at_its_ends():
    for log in (
        np.zeros(50),
        np.arange(20.0),
        np.append(np.arange(40.0), math.inf),
        np.append(np.arange(40.0), np.nan),
    ):
        assert math.isnan(ratios.pareto_k(torch.from_numpy(log)[None]).item())


@given(
    values=hnp.arrays(np.float64, (2, 3, 4), elements=st.integers(-9, 9).map(float)),
    scale=st.sampled_from([1e-100, 1.0, 1e100]),
)
def test_cosine(values, scale):
    first, second = torch.from_numpy(values)
    found = ratios.cosine(scale * first, second)
    for f, a, b in zip(found.tolist(), *values, strict=True):
        size = np.linalg.norm(a) * np.linalg.norm(b)
        assert math.isnan(f) if size == 0 else f == pytest.approx(a @ b / size, abs=1e-12)


def test_cosine_at_its_ends():
    vectors = torch.tensor([[1.0, 2.0], [1.0, 2.0], [1.0, math.inf], [1.0, math.nan]], dtype=torch.float64)
    others = torch.tensor([[2.0, 4.0], [-2.0, -4.0], [1.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    found = ratios.cosine(vectors, others).tolist()
    assert found[:2] == pytest.approx([1.0, -1.0], abs=1e-12) and all(math.isnan(f) for f in found[2:])


@given(cap=st.floats(1.0, 20.0), n=st.integers(2, 200))
def test_an_open_lower_side_has_no_floor(cap, n):
    """Clamped to [0, C] one heavy weight among vanishing ones reads 1/n, as the truth does."""
    log = torch.full((1, n), -800.0, dtype=torch.float64)
    log[0, 0] = 800.0
    assert ratios.ess(log, equal(log), clamp=cap, low=0.0).item() == pytest.approx(1.0 / n)


@given(
    values=hnp.arrays(np.float64, (2, 9), elements=st.floats(-700, 700)), level=st.sampled_from([0.1, 0.5, 0.95, 1.0])
)
def test_quantiles_are_numpys(values, level):
    log = torch.from_numpy(values)
    expected = np.quantile(values, level, axis=1, method="inverted_cdf")
    np.testing.assert_array_equal(ratios.quantile(log, equal(log), level), expected)


def test_quantiles_at_their_edges():
    """Infinities are values, NaN is not; cells without mass are neither the least nor the largest."""
    log = torch.tensor([[math.inf, 1.0, -math.inf], [math.nan, 1.0, 2.0], [5.0, 1.0, 2.0]], dtype=torch.float64)
    third, some = equal(log), torch.tensor([[0.0, 0.5, 0.5]], dtype=torch.float64)
    low, high = (ratios.quantile(log, third, level) for level in (0.0, 1.0))
    np.testing.assert_array_equal(low, [-math.inf, math.nan, 1.0])
    np.testing.assert_array_equal(high, [math.inf, math.nan, 5.0])
    np.testing.assert_array_equal(ratios.quantile(log, some, 1.0), [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(ratios.quantile(log, some, 0.0), [-math.inf, 1.0, 1.0])
    assert torch.isnan(ratios.quantile(log, torch.zeros_like(log), 0.5)).all()
    # Masses in single precision add up to a little less than 1.
    many = torch.arange(1000.0).reshape(1, -1)
    assert ratios.quantile(many, torch.full_like(many, 1e-3 * (1 - 1e-6)), 1.0).item() == 999.0


def test_beyond_a_bound():
    log = torch.tensor([[0.0, 1.0, -1.0, math.inf], [0.0, 1.0, math.nan, 0.0]], dtype=torch.float64)
    np.testing.assert_array_equal(ratios.beyond(log, equal(log), 1.0, "above"), [0.5, math.nan])
    np.testing.assert_array_equal(ratios.beyond(log, equal(log), 1.0, "below"), [0.25, math.nan])
    np.testing.assert_array_equal(ratios.beyond(log, equal(log), 0.0, "below"), [0.0, math.nan])


def test_ess_along_an_axis():
    """Each row by itself; a row without mass has none, a broken one is NaN, an overflow is none."""
    log = torch.tensor([[900.0, 900.0], [0.0, -900.0], [math.nan, 0.0], [0.0, math.inf], [math.nan, 0.0]]).double()
    mass = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]).double()
    np.testing.assert_allclose(ratios.ess_along(log, mass, -1), [1.0, 0.5, math.nan, math.nan, 1.0])
    assert torch.isnan(ratios.ess_along(log, torch.zeros_like(mass), -1)).all()
