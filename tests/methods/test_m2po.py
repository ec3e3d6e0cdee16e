"""M2PO: levels by hand and by equation, what is dropped first, what the lag masks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncsim as sim
from tests.contracts.laboratory import step_with
from tests.methods.steps import single

M = sim.methods


def test_four_harmful_tokens_by_hand():
    """v = .01, .04, .09, .36 against 4 tau = .16: filling to .09 gives .23, so the release goes back to .04."""
    log_ratio, advantage = [0.1, -0.2, 0.3, -0.6, 0.5, -0.5], [1.0, -1.0, 1.0, -1.0, -1.0, 1.0]
    weight, found = single(M.m2po_waterfill(), log_ratio, advantage)
    assert found["m2po_theta"] == 0.2 and found["m2po_dropped"] == pytest.approx(2 / 6)
    expected = [math.exp(0.1), -math.exp(-0.2), 0.0, 0.0, -math.exp(0.5), math.exp(-0.5)]
    np.testing.assert_allclose(weight, expected, rtol=1e-14)
    _, exact = single(M.m2po_waterfill(exact=True), log_ratio, advantage)
    assert exact["m2po_theta"] == pytest.approx(math.sqrt((0.16 - 0.05) / 2), abs=1e-14)
    # The mask asks for the mean of those that stay: (.01 + .04 + .09)/3 is above .04, (.01 + .04)/2 is not.
    weight, masked = single(M.m2po_mask(), log_ratio, advantage)
    assert masked["m2po_theta"] == 0.2 and masked["m2po_dropped"] == pytest.approx(2 / 6)
    np.testing.assert_allclose(weight, expected, rtol=1e-14)


def test_over_all_tokens_the_harmless_ones_dilute():
    log_ratio, advantage = [0.3, 0.4] + [0.01] * 8, [1.0, 1.0] + [-1.0] * 8
    assert single(M.m2po_mask(), log_ratio, advantage)[1]["m2po_dropped"] == pytest.approx(0.2)
    assert single(M.m2po_mask(over="all"), log_ratio, advantage)[1]["m2po_theta"] == math.inf
    # Harmless tokens alone may be above tau; then every harmful one goes, and nothing else.
    far = [0.3, 0.4] + [1.0] * 8
    weight, found = single(M.m2po_mask(over="all"), far, advantage)
    assert found["m2po_theta"] == 0.0 and (weight[:2] == 0).all() and (weight[2:] != 0).all()


def test_the_release_reports_a_smaller_level_and_closes_the_same_tokens():
    """Gaussian log ratios of deviation .6: with 4 harmful tokens theta is .09 instead of .23, with 64 .21 and .22.

    Three in ten of the small steps have no harmful gradient left; solving for the level changes none of them.
    """
    random, found = np.random.default_rng(0), {}
    for n in (4, 64):
        log_ratio, weight = torch.from_numpy(np.abs(0.6 * random.standard_normal((4000, 1, n, 1)))), []
        for exact in (False, True):
            seen = step_with(log_ratio)
            weight.append(M.m2po_waterfill(exact=exact).weight.score_weight(seen, torch.ones_like(log_ratio)))
            theta = seen.statistics["m2po_theta"]
            found[n, exact] = theta[theta < math.inf].mean().item()
        assert torch.equal(*weight)
        found[n] = (weight[0] == 0).all(2).double().mean().item()
    expected = {(4, False): 0.09, (4, True): 0.23, (64, False): 0.21, (64, True): 0.22, 4: 0.3, 64: 0.0}
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=0.02), key


def test_only_a_token_at_the_level_itself_tells_them_apart():
    """v = 1/16, 1/16, 1 and tau = 1/16: the level is 1/16 to the bit, one breakpoint back is 0."""
    size = [0.25, 0.25, 1.0]
    for exact, closed in ((False, [True, True, True]), (True, [False, False, True])):
        weight, _ = single(M.m2po_waterfill(1 / 16, exact=exact), size, [1.0] * 3)
        assert (weight == 0).tolist() == closed


values = hnp.arrays(
    np.float64, st.integers(2, 12), elements=st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 30.0, 800.0])
)


@given(size=values, tau=st.sampled_from([1e-6, 0.04, 0.3, 10.0]))
def test_the_exact_level_solves_its_equation(size, tau):
    """sum min(v, theta^2) = tau n, for equal tokens too; the release stays below it."""
    _, exact = single(M.m2po_waterfill(tau, exact=True), size, np.ones(len(size)))
    _, released = single(M.m2po_waterfill(tau), size, np.ones(len(size)))
    v = size[size > 0] ** 2
    if v.size == 0 or v.mean() <= tau:
        assert exact["m2po_theta"] == released["m2po_theta"] == math.inf
        return
    level = exact["m2po_theta"] ** 2
    assert np.minimum(v, level).mean() == pytest.approx(tau, rel=1e-12)
    assert released["m2po_theta"] <= exact["m2po_theta"] * (1 + 1e-12)
    assert released["m2po_theta"] in {0.0, *size}


@given(size=values, sign=st.integers(0, 10**6), tau=st.sampled_from([1e-6, 0.04, 0.3, 10.0]))
def test_the_mask_drops_the_largest_first_and_no_more_than_it_must(size, sign, tau):
    advantage = np.random.default_rng(sign).choice([-1.0, 1.0], len(size))
    weight, _ = single(M.m2po_mask(tau), size, advantage)
    bad, gone = (advantage > 0) & (size > 0), weight.numpy() == 0
    assert not gone[~bad].any()
    kept = size[bad & ~gone]
    assert (kept**2).sum() <= tau * kept.size * (1 + 1e-12)
    if gone.any():
        next_one = size[bad & gone].min()
        more = size[bad & (size <= next_one)]
        assert kept.max(initial=0.0) < next_one and (more**2).mean() > tau * (1 - 1e-12)


def test_the_lag_masks_by_hand():
    """v = 0, .01, .09, .16: the means of the smallest are 0, .005, .033, .065; signs do not matter, nor does h in c."""
    log_ratio, drift = torch.tensor([0.0, -0.1, 0.3, 0.5]), torch.tensor([0.0, 0.0, 0.0, 0.1])
    method = M.m2po_areal()
    seen = step_with(log_ratio.double().reshape(1, 1, 4, 1), drift.double().reshape(1, 1, 4, 1))
    weight = method.weight.score_weight(seen, torch.ones(1, 1, 4, 1).double())
    np.testing.assert_allclose(weight.flatten(), [1.0, 1.0, 1.0, 0.0], atol=1e-7)
    assert seen.statistics["m2po_theta"].item() == pytest.approx(0.3, abs=1e-7)


def test_one_token_stays_however_stale():
    behavior_log_ratio = torch.tensor([3.0, 4.0, -5.0], dtype=torch.float64).reshape(1, 1, 3, 1)
    weight = M.m2po_areal().weight.score_weight(
        step_with(behavior_log_ratio, torch.zeros_like(behavior_log_ratio)), torch.ones_like(behavior_log_ratio)
    )
    assert weight.flatten().tolist() == [1.0, 0.0, 0.0]


def test_the_mean_lag_must_be_below_its_bound():
    """v = 0, 1/16 and tau = 1/32, their mean to the bit."""
    behavior_log_ratio = torch.tensor([0.0, -0.25], dtype=torch.float64).reshape(1, 1, 2, 1)
    for tau, kept in ((1 / 32, 0.0), (1 / 32 + 1e-12, 1.0)):
        weight = M.m2po_areal(tau).weight.score_weight(
            step_with(behavior_log_ratio, torch.zeros_like(behavior_log_ratio)), torch.ones_like(behavior_log_ratio)
        )
        assert weight.flatten().tolist() == [1.0, kept]


def test_half_of_what_the_lag_masks_is_on_its_way_back():
    random = np.random.default_rng(0)
    behavior_log_ratio = torch.from_numpy(0.4 * random.standard_normal((1, 1, 4000, 1)))
    advantage = torch.from_numpy(random.choice([-1.0, 1.0], (1, 1, 4000, 1)))
    gone = (
        M.m2po_areal().weight.score_weight(
            step_with(behavior_log_ratio, torch.zeros_like(behavior_log_ratio)), advantage
        )
        == 0
    )
    harmful = (behavior_log_ratio * advantage > 0)[gone].double().mean().item()
    assert gone.sum() > 1000 and abs(harmful - 0.5) < 4 * 0.5 / math.sqrt(gone.sum().item())
