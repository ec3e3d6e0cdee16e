"""Baselines: numbers by hand, and leaving out by deleting."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given

import asyncsim as sim
from tests.contracts.test_advantages import OPTIONS, drawn, samples
from tests.refusals import refused

ADV = sim.advantages
each_option = pytest.mark.parametrize("label", OPTIONS)
LEFT_OUT = [label for label in OPTIONS if "left out" in label and "step" not in label]


def with_lengths(lengths, given):
    """The samples, with so many tokens each."""
    lengths = torch.as_tensor(np.asarray(lengths, dtype=np.float64))
    batch = dataclasses.replace(given.batch, mask=(torch.arange(int(lengths.max())) < lengths[..., None]).double())
    found = copy.copy(given)
    found.batch = batch
    return found


def value(advantage, rewards, weights, lengths=None):
    """Advantages of one group as a list; `weights` are both omega and omega^2 n^2."""
    weights = np.array([[weights]], dtype=np.float64)
    found = samples([[rewards]], weights, weights)
    found = found if lengths is None else with_lengths([[lengths]], found)
    return advantage(found)[0, 0].tolist()


# By hand.


def test_group_std_conventions():
    """Rewards 0 and 1: +-1 with N, +-0.7071 with N - 1; a population has one standard deviation."""
    for unbiased, expected in ((False, 1.0), (True, math.sqrt(0.5))):
        found = value(ADV.group_std(eps=0.0, unbiased=unbiased), [0.0, 1.0], [1.0, 1.0])
        assert found == pytest.approx([-expected, expected], rel=1e-14)
    whole = samples([[[0.0, 1.0]]], mass=[[[0.25, 0.75]]], size=math.inf)
    assert torch.equal(ADV.group_std()(whole), ADV.group_std(unbiased=True)(whole))


def test_opo_weighs_by_length():
    """Lengths 1, 3, 4 and rewards 1, 0, 2: b = 9/8. Left out: 8/7, 9/5, 1/4."""
    rewards, ones, lengths = [1.0, 0.0, 2.0], [1.0, 1.0, 1.0], [1.0, 3.0, 4.0]
    assert value(ADV.opo(), rewards, ones, lengths) == pytest.approx([-1 / 8, -9 / 8, 7 / 8])
    assert value(ADV.opo(leave_one_out=True), rewards, ones, lengths) == pytest.approx([-1 / 7, -9 / 5, 7 / 4])
    # The ratio does not matter to it.
    assert value(ADV.opo(), rewards, [5.0, 0.1, 1.0], lengths) == value(ADV.opo(), rewards, ones, lengths)


def test_robust_locations():
    """Weights 0.04, 0.5, 0.43, 0.03 on rewards -10, 0, 2, 30: median 0; 5 % and 95 % quantiles 0 and 2."""
    rewards, weights = [-10.0, 0.0, 2.0, 30.0], [0.04, 0.5, 0.43, 0.03]
    assert value(ADV.opob(robust="median"), rewards, weights) == [-10.0, 0.0, 2.0, 30.0]
    winsorized = [r - 2.0 * 0.46 for r in rewards]
    assert value(ADV.opob(robust="winsorized"), rewards, weights) == pytest.approx(winsorized, rel=1e-12)
    plain = -10.0 * 0.04 + 2.0 * 0.43 + 30.0 * 0.03
    assert value(ADV.opob(), rewards, weights) == pytest.approx([r - plain for r in rewards], rel=1e-12)


def test_standardized_by_the_plain_deviation():
    """The deviation is that of the rewards, not of weighted ones; below 1e-8 nothing is divided."""
    rewards, weights = [1.0, 0.0, 0.0, 0.0], [9.0, 1.0, 1.0, 1.0]
    plain = np.array(value(ADV.opob(), rewards, weights))
    found = value(ADV.opob(standardize=True), rewards, weights)
    np.testing.assert_allclose(found, plain / np.std(rewards), rtol=1e-12)
    close = [1.0, 1.0 + 1e-9]
    assert value(ADV.opob(standardize=True), close, [1.0, 1.0]) == value(ADV.opob(), close, [1.0, 1.0])


def test_scope_of_a_step():
    """One baseline for both groups; each group keeps its own by default."""
    given = samples([[[1.0, 0.0], [5.0, 3.0]]], None, [[[1.0, 3.0], [2.0, 2.0]]])
    whole = (1.0 + 10.0 + 6.0) / 8.0
    expected = torch.tensor([[1.0, 0.0], [5.0, 3.0]]).double() - whole
    torch.testing.assert_close(ADV.opob("step")(given)[0], expected)
    own = torch.tensor([[0.75, -0.25], [1.0, -1.0]]).double()
    torch.testing.assert_close(ADV.opob()(given)[0], own)
    one = samples([[[1.0], [0.0]]])
    ADV.opob("step").check(1)
    torch.testing.assert_close(ADV.opob("step")(one).flatten(), torch.tensor([0.5, -0.5]).double())
    refused("samples_per_group = 1", lambda: ADV.opob().check(1))


@pytest.mark.parametrize("scope", ["group", "step"])
@given(data=drawn())
def test_leaving_out_is_deleting(scope, data):
    rewards, weights, norms = data
    found = ADV.opob(scope, leave_one_out=True)(samples(rewards, weights, norms)).numpy()
    groups = rewards.reshape(len(rewards), -1, rewards.shape[2] if scope == "group" else rewards[0].size)
    heavy, found = norms.reshape(groups.shape), found.reshape(groups.shape)
    for index in np.ndindex(groups.shape):
        others, weight = (np.delete(x[index[:2]], index[2]) for x in (groups, heavy))
        assert found[index] == pytest.approx(groups[index] - others @ weight / weight.sum(), rel=1e-9, abs=1e-9)


def test_an_overwhelming_weight_leaves_the_others_their_digits():
    """Subtracting one sample from the sum would leave 0/0: others weigh 1e-20 of it."""
    rewards, weights = [7.0, 1.0, 0.0, 4.0], [1e20, 1.0, 2.0, 1.0]
    found = value(ADV.self_normalized(leave_one_out=True), rewards, weights)
    assert found[0] == pytest.approx(7.0 - 5.0 / 4.0, rel=1e-14)
    assert found[1:] == pytest.approx([-6.0, -7.0, -3.0], rel=1e-14)


@pytest.mark.parametrize("label", ["opob left out", "self_normalized left out"])
def test_vanishing_weights_of_the_others_fall_back_on_their_mean(label):
    assert value(OPTIONS[label](), [3.0, 1.0, 2.0], [1.0, 0.0, 0.0]) == pytest.approx([1.5, -2.0, -1.0])
    assert value(OPTIONS[label](), [3.0, 1.0, 2.0], [0.0, 0.0, 0.0]) == pytest.approx([1.5, -1.5, 0.0])


def test_an_only_sample_of_a_step_has_no_advantage():
    assert ADV.opob("step", leave_one_out=True)(samples([[[3.0]]])).item() == 0.0


# Every option.


@each_option
def test_counted_groups_of_a_step_are_its_samples(label):
    """Two groups of four, in cells: one sample of a cell of three leaves two behind."""
    cells, count = np.array([[0.0, 1.0], [3.0, 7.0]]), np.array([[3, 1], [2, 2]])
    weights = np.array([[2.0, 1.0], [4.0, 0.5]])
    each = np.array([[0, 0, 0, 1], [0, 0, 1, 1]])
    rows, single = (np.take_along_axis(x, each, 1)[None] for x in (cells, weights))
    alone = OPTIONS[label]()(samples(rows, single, single))[0].numpy()
    found = OPTIONS[label]()(samples(cells[None], weights[None], weights[None], mass=count[None] / 4, size=4))[
        0
    ].numpy()
    np.testing.assert_allclose(np.take_along_axis(found, each, 1), alone, rtol=1e-12)


def test_one_sample_of_a_step_leaves_nothing_behind():
    """Masses 1/3 over 5 groups and 1/15 differ in the last digit, which a weight of 1e20 would find."""
    random = np.random.default_rng(0)
    rewards, weights = random.normal(size=(1, 5, 3)), np.ones((1, 5, 3))
    weights[0, 2, 1] = 1e20
    found = ADV.opob("step", leave_one_out=True)(samples(rewards, weights, weights))
    others = np.delete(rewards.ravel(), 7).mean()
    assert found[0, 2, 1].item() == pytest.approx(rewards[0, 2, 1] - others, rel=1e-12)


@pytest.mark.parametrize("label", [label for label in LEFT_OUT if label != "group_std unbiased"])
def test_a_population_loses_nothing_by_leaving_one_out(label):
    given = samples([[[1.0, 0.0, 3.0]]], [[[1.0, 2.0, 0.5]]], [[[1.0, 2.0, 0.5]]], [[[0.2, 0.5, 0.3]]], math.inf)
    out = OPTIONS[label]()
    torch.testing.assert_close(out(given), dataclasses.replace(out, leave_one_out=False)(given))


def test_a_robust_location_leaves_none_out():
    refused("robust = 'median': must be 'none' with leave_one_out=True", ADV.opob, robust="median", leave_one_out=True)
