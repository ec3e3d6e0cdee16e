"""BAPO: which way a search walks, where it stops, what it counts."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.methods import _adaptive
from tests.contracts.laboratory import step_with
from tests.methods.steps import single

M = sim.methods


def along(weight, log_ratio, advantage):
    """The pairs of bounds in the order in which they are tried, and sums of both signs at each."""
    seen = step_with(log_ratio)
    lows = _adaptive._grid(weight.low, weight.low_cap, weight.low_step, seen)
    highs = _adaptive._grid(weight.high, weight.high_cap, weight.high_step, seen)
    plus, minus = _adaptive._sums(seen, weight.parts(seen), advantage > 0, advantage.abs(), lows, highs, weight.count)
    row, column = weight.path(lows.shape[1], highs.shape[1])
    return lows[0, row], highs[0, column], plus[0, 0, column], minus[0, 0, row]


@pytest.mark.parametrize("make", [M.bapo_paper, M.bapo_code])
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 0.1, 0.5, 3.0]))
def test_the_searched_statistic_rises_where_the_gradient_is_counted(make, seed, spread):
    """And as released it falls, or stays, on every step of the lower bound."""
    random = np.random.default_rng(seed)
    log_ratio = torch.from_numpy(spread * random.standard_normal((1, 1, 9, 2)))
    advantage = torch.from_numpy(random.standard_normal((1, 1, 9, 1)))
    for count in ("gradient", "code"):
        low, high, plus, minus = along(make(count=count).weight, log_ratio, advantage)
        r, a = log_ratio.exp().flatten(), advantage.expand(log_ratio.shape).flatten() / 18
        for k in range(len(low)):
            term = torch.where(a > 0, r.clamp(max=high[k]), r.clamp(min=low[k])) * a.abs()
            if count == "gradient":
                term = torch.where((a > 0) & (r > high[k]) | (a < 0) & (r < low[k]), 0.0, term)
            np.testing.assert_allclose(
                [plus[k], minus[k]], [term[a > 0].sum(), term[a < 0].sum()], rtol=1e-11, atol=1e-14
            )
        assert (plus.diff() >= -1e-12).all()
        assert ((minus.diff() if count == "code" else -minus.diff()) >= -1e-12).all()


def test_the_released_search_walks_away_from_its_goal():
    """Negative tokens at ratio .5 count .6 to .8 of their advantage although their gradient is 0 all along."""
    log_ratio = torch.tensor([1.0, 1.0, 0.5, 0.5, 0.7], dtype=torch.float64).log()
    advantage = [1.0, 1.0, -1.5, -1.5, -1.0]
    low, _, plus, minus = along(
        M.bapo_code().weight,
        log_ratio.reshape(1, 1, 5, 1),
        torch.tensor(advantage, dtype=torch.float64).reshape(1, 1, 5, 1),
    )
    share = (plus / minus)[: int((low < 0.8 - 1e-9).sum()) + 1]
    assert (share.diff() < 0).all() and len(share) == 5
    weight, found = single(M.bapo_code(target=0.9), log_ratio, advantage)
    assert found["bapo_low"] == pytest.approx(0.8) and weight[4] == 0
    # What the gradient sees is 2 against .7 from the start.
    weight, found = single(M.bapo_code(target=0.9, count="gradient"), log_ratio, advantage)
    assert (
        found["bapo_low"] == 0.6
        and found["bapo_share"] == pytest.approx(2.0 / 2.7)
        and weight[4] == pytest.approx(-0.7)
    )


@given(seed=st.integers(0, 10**6))
def test_once_entered_the_released_loop_ends_at_its_cap(seed):
    random = np.random.default_rng(seed)
    log_ratio, advantage = 0.5 * random.standard_normal(8), random.standard_normal(8)
    _, found = single(M.bapo_code(), log_ratio, advantage)
    assert found["bapo_low"] in (0.6, pytest.approx(0.8))


def test_counting_the_gradient_stops_in_between():
    """Negative tokens at .62, .68, .74: bounds that pass two of them are enough."""
    log_ratio = torch.tensor([1.0, 0.62, 0.68, 0.74], dtype=torch.float64).log()
    _, found = single(M.bapo_code(count="gradient"), log_ratio, [1.0, -0.9, -0.9, -0.9])
    assert found["bapo_low"] == pytest.approx(0.7) and found["bapo_high"] == 1.2
    _, found = single(M.bapo_paper(0.6, count="gradient", high_cap=1.25), log_ratio, [1.0, -0.9, -0.9, -0.9])
    assert found["bapo_low"] == pytest.approx(0.7, abs=0.011) and found["bapo_high"] == 1.25


def test_the_printed_search_raises_the_upper_bound_first():
    log_ratio = torch.tensor([1.42, 1.0], dtype=torch.float64).log()
    _, found = single(M.bapo_paper(0.58), log_ratio, [1.0, -1.0])
    # 1.4 / 2.4 = .583 is enough, 1.35 / 2.35 = .574 is not.
    assert found["bapo_high"] == pytest.approx(1.4) and found["bapo_low"] == 0.6
    assert found["bapo_share"] == pytest.approx(1.4 / 2.4)


def test_a_step_without_signal_needs_no_search():
    _, found = single(M.bapo_paper(), [0.5, -0.5], [0.0, 0.0])
    assert found["bapo_low"] == 0.6 and found["bapo_high"] == 1.2 and math.isnan(found["bapo_share"])


def test_the_dual_clip_stops_tokens_that_came_back_too_far():
    log_ratio = torch.tensor([1.0, 2.9, 3.1], dtype=torch.float64).log()
    weight, _ = single(M.bapo_code(), log_ratio, [-1.0, -1.0, -1.0])
    np.testing.assert_allclose(weight, [-1.0, -2.9, 0.0], rtol=1e-14)
    weight, _ = single(M.bapo_paper(), log_ratio, [-1.0, -1.0, -1.0])
    np.testing.assert_allclose(weight, [-1.0, -2.9, -3.1], rtol=1e-14)


def test_a_ratio_on_a_bound_is_inside():
    """As for the clip itself: .5 at the lower bound .5, 2 at the upper bound 2, both to the bit."""
    log_ratio = torch.tensor([0.5, 2.0], dtype=torch.float64).log().reshape(1, 1, 2, 1)
    assert log_ratio.exp().flatten().tolist() == [0.5, 2.0]
    advantage = torch.tensor([-2.0, 2.0], dtype=torch.float64).reshape(1, 1, 2, 1)
    method = M.bapo_code(low=0.5, low_cap=1.0, low_step=0.25, high=1.5, high_cap=2.5, high_step=0.5, count="gradient")
    low, high, plus, minus = along(method.weight, log_ratio, advantage)
    assert low.tolist() == [0.5, 0.75, 1.0, 1.0, 1.0] and minus.tolist() == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert high.tolist() == [1.5, 1.5, 1.5, 2.0, 2.5] and plus.tolist() == [0.0, 0.0, 0.0, 2.0, 2.0]


@pytest.mark.parametrize("make", [M.bapo_code, M.bapo_paper])
def test_a_search_has_so_many_bounds_on_either_side(make):
    """One step more than allowed is refused by name; so is a replicate among others."""
    highest = 1.2 + 0.05 * _adaptive.STEPS
    assert make(high_cap=highest).describe()["high_cap"] == highest
    for high_cap, high_step in ((highest + 0.05, 0.05), (1e9, 0.05), ([2.0, 1e6], 0.05), (3.0, [0.05, 1e-4])):
        with pytest.raises(sim.InputError, match=r"1000 steps of high_step from high = 1.2; raise high_step") as caught:
            make(high_cap=high_cap, high_step=high_step)
        assert caught.value.field == "high_cap"
    with pytest.raises(sim.InputError, match=r"1000 steps of low_step") as caught:
        make(low_step=1e-6)
    assert caught.value.field == "low_cap"
    # Unequal lengths are refused where the replicates are known.
    make(high_cap=[2.0, 3.0], high_step=[0.1, 0.2, 0.3])


def test_the_largest_search_is_weighed_in_little_memory():
    log_ratio = torch.linspace(-3.0, 4.0, 200, dtype=torch.float64)
    advantages = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(100)
    step = 50.0 / _adaptive.STEPS
    _, found = single(M.bapo_code(target=1e6, high_cap=51.2, high_step=step, count="gradient"), log_ratio, advantages)
    assert found["bapo_high"] == pytest.approx(51.2) and found["bapo_low"] == 0.8
