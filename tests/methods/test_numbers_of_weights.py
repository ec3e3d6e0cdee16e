"""What weights are made of, to the last bit: bounds, products in place, probabilities, log ratios that are masked."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.methods._weights import by_sign, clipped, movable, probability, times
from asyncsim.step import ratios
from asyncsim.step.step import given as step_given

DTYPES = [torch.float32, torch.float64]


def beside(bound, dtype):
    """The number before a bound, the bound, the number after it."""
    at = torch.tensor(bound, dtype=dtype)
    ends = (torch.full((), x, dtype=dtype) for x in (-math.inf, math.inf))
    before, after = (torch.nextafter(at, end) for end in ends)
    return torch.stack([before, at, after])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("one_each", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.8, 1.2), (0.0, 1.0), (1.0 - 1e-4, 3.7), (-0.3, 0.0)])
def test_a_bound_is_inside_and_the_next_number_is_not(dtype, one_each, low, high):
    bounds = [torch.full((1, 1, 1, 1), x, dtype=torch.float64) if one_each else x for x in (low, high)]
    for sign, bound, expected in ((1.0, high, [1, 1, 0]), (-1.0, low, [0, 1, 1])):
        values = beside(bound, dtype).reshape(1, 1, 1, 3)
        kept = values.clone()
        for advantage in (torch.full((1, 1, 1, 1), sign * 1e-30, dtype=dtype), torch.full_like(values, sign)):
            found = movable(values, advantage, *(x if one_each else float(x) for x in bounds))
            assert found.dtype == dtype and found.flatten().tolist() == expected
        assert torch.equal(values, kept)


def test_no_number_is_closed_and_no_advantage_open():
    values = torch.tensor([math.nan, math.inf, -math.inf, 5.0]).reshape(1, 1, 1, 4)
    for sign, expected in ((1.0, [0, 0, 1, 0]), (-1.0, [0, 1, 0, 1]), (0.0, [0, 1, 1, 1])):
        assert movable(values.clamp(-9.0, 9.0), torch.full((1, 1, 1, 1), sign), 0.8, 1.2).flatten().tolist() == expected
    found = clipped(values, torch.ones_like(values), torch.ones(1, 1, 1, 1), 0.8, 1.2)
    assert found[..., 0].isnan() and found[0, 0, 0, 3] == 5.0


def test_products_stay_in_place_only_where_they_fit():
    own, factor = torch.ones(1, 2, 2, 1), torch.arange(4.0).reshape(1, 1, 1, 4)
    assert times(own, factor).shape == (1, 2, 2, 4) and (own == 1).all()
    assert times(own, factor[..., :1].double()).dtype == torch.float64 and (own == 1).all()
    assert times(own, factor[..., 2:3]) is own and (own == 2).all()


def test_one_number_for_each_sign():
    advantage = torch.tensor([2.0, 0.0, -1.0]).double().reshape(1, 1, 3, 1)
    assert by_sign(advantage, 1.05, 0.1).flatten().tolist() == [1.05, 0.1, 0.1]
    either = by_sign(advantage.expand(2, 1, 3, 1), torch.tensor([[1.0], [2.0]]), 0.5)
    assert either[..., 0].tolist() == [[[1.0, 0.5, 0.5]], [[2.0, 0.5, 0.5]]]


@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-7), (torch.float64, 2e-16)])
def test_probabilities(dtype, within):
    log_prob = -torch.logspace(-9, 3, 4001, dtype=torch.float64).to(dtype)
    exact = log_prob.double().exp()
    assert (probability(log_prob).double() - exact).abs().max() <= within
    assert probability(torch.tensor([0.0, -math.inf])).tolist() == [1.0, 0.0]


@given(
    values=st.lists(st.sampled_from([-math.inf, -800.0, -1.5, -0.1, 0.0, math.nan, math.inf]), min_size=6, max_size=6),
    mask=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_masked_log_ratios_are_the_same_whatever_stands_elsewhere(values, mask):
    """The product that masks finite numbers and the choice that masks others agree bit by bit."""
    above, below = torch.tensor(values).reshape(2, 1, 1, 1, 3)
    told = torch.tensor(mask).float().reshape(1, 1, 1, 3)
    expected = ratios.log_ratio(above, below, told)
    for odd in (0.0, math.nan):
        # The other replicate decides which way is taken.
        first, second, both = (torch.cat([x, torch.full_like(x, odd)]) for x in (above, below, told))
        seen = step_given(sim.methods.reinforce(), {"log_prob": first}, {"log_prob": second}, both.nan_to_num(0.0))
        found = seen.log_ratio[:1]
        assert torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0))
        assert torch.equal(found.signbit() & ~found.isnan(), expected.signbit() & ~expected.isnan())
