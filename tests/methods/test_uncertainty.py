"""Tokens selected by covariance, and trust regions by entropy: by hand, and against the draws of the release."""

import itertools
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods.clipped import _covariance
from asyncsim.step.step import given
from tests.contracts.laboratory import case

M = sim.methods
CHANCE = [0.9, 0.8, 0.5, 0.2, 0.1]
GOOD = [1.0, 1.0, -1.0, -1.0, 1.0]


def seen_of(log_ratio=0.0, chance=CHANCE):
    """One token of each chance; `log_ratio`, one for all or one for each."""
    now = torch.tensor(chance, dtype=torch.float64).log().reshape(1, 1, -1, 1)
    wide = torch.as_tensor(log_ratio, dtype=torch.float64).reshape(1, 1, -1, 1).expand(now.shape)
    return given(M.reinforce(), {"log_prob": now}, {"log_prob": now - wide}, torch.ones_like(now))


def advantages_of(values=GOOD):
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, -1, 1)


def weights(method, seen, values=GOOD):
    return method.weight.score_weight(seen, advantages_of(values)).flatten().tolist()


def expected_covariance():
    level, good = np.log(CHANCE), np.array(GOOD)
    return (good - good.mean()) * (level - level.mean())


def test_covariance_is_of_the_whole_step():
    found = _covariance(seen_of(), advantages_of()).flatten().numpy()
    np.testing.assert_allclose(found, expected_covariance(), rtol=1e-13)
    assert found.mean() == pytest.approx(np.cov(GOOD, np.log(CHANCE), ddof=0)[0, 1])


def test_masked_tokens_have_no_part_in_it():
    seen = seen_of()
    mask = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64).reshape(1, 1, 5, 1)
    seen.batch.mask = mask
    seen.known["log_prob"][0, 0, 3:] = -math.inf
    found = _covariance(seen, advantages_of()).flatten().numpy()
    level, good = np.log(CHANCE[:3]), np.array(GOOD[:3])
    np.testing.assert_allclose(found[:3], (good - good.mean()) * (level - level.mean()), rtol=1e-13)
    assert np.isnan(found[3:]).all()


def test_clip_cov_is_the_mean_over_the_draws_of_the_release():
    """Two of five tokens are stopped, drawn from those of positive covariance; the mean over all draws."""
    value = expected_covariance()
    inside = [k for k in range(5) if value[k] > 0]
    assert len(inside) == 3
    draws = list(itertools.combinations(inside, 2))
    mean = sum(np.array([0.0 if k in drawn else 1.0 for k in range(5)]) for drawn in draws) / len(draws)
    found = weights(M.clip_cov(share=0.4, lower=0.0, upper=50.0), seen_of())
    np.testing.assert_allclose(found, mean * np.array(GOOD), atol=1e-14)
    assert 0.0 < mean.min() < 1.0


def test_ppo_closes_first_and_what_it_closed_is_not_stopped_again():
    """The first token is beyond the clip: the other two of positive covariance share what is stopped."""
    found = weights(M.clip_cov(share=0.3, lower=0.0, upper=50.0), seen_of([1.0, 0.0, 0.0, 0.0, 0.0]))
    value = expected_covariance()
    left = [0.0 if k == 0 else (1 - 0.3 / 0.4 if value[k] > 0 else 1.0) * GOOD[k] for k in range(5)]
    assert found == pytest.approx(left)


def test_a_band_with_less_than_the_share_is_stopped_whole():
    value = sorted(expected_covariance())
    found = weights(M.clip_cov(share=0.9, lower=(value[-2] + value[-1]) / 2, upper=50.0), seen_of())
    assert found.count(0.0) == 1 and sum(abs(x) for x in found) == 4.0
    assert weights(M.clip_cov(share=0.9, lower=40.0, upper=50.0), seen_of()) == GOOD


@pytest.mark.parametrize(("share", "count"), [(1e-9, 1), (0.2, 1), (0.21, 2), (0.4, 2), (1.0, 5)])
def test_kl_cov_pulls_the_tokens_of_largest_covariance(share, count):
    value = expected_covariance()
    pulled = np.argsort(value)[-count:]
    log_ratio = np.array([0.3, -0.2, 0.1, -0.1, 0.2])
    found = np.array(weights(M.kl_cov(share, 0.5), seen_of(log_ratio)))
    expected = np.exp(log_ratio) * GOOD
    expected[pulled] -= 0.5 * np.sign(log_ratio[pulled])
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_no_pull_where_nothing_has_moved():
    """Also up to rounding, whose sign says nothing."""
    for log_ratio in (0.0, 1e-16, -1e-16):
        assert weights(M.kl_cov(1.0, 5.0), seen_of(log_ratio)) == pytest.approx(GOOD, abs=1e-12)


def test_where_a_log_prob_is_not_finite_nothing_is_selected():
    chance = [0.9, 0.8, 0.5, 0.2, 0.0]
    # What neither policy can draw has the ratio 1.
    plain = [math.exp(0.1) * a for a in GOOD[:4]] + GOOD[4:]
    assert weights(M.kl_cov(1.0, 5.0), seen_of(0.1, chance)) == pytest.approx(plain)
    assert weights(M.clip_cov(1.0, -9.0, 9.0), seen_of(0.0, chance)) == GOOD


def test_a_region_is_as_wide_as_its_state_is_uncertain():
    """The same log ratio 0.2 in states of entropy 0, 0.3, 0.5 and 2; one bound for all would keep all or none."""
    seen = seen_of(0.2, [0.5] * 4)
    seen.known["entropy"] = torch.tensor([0.0, 0.3, 0.5, 2.0], dtype=torch.float64).reshape(1, 1, 4, 1)
    cases = ((0.45, 0.01, [0, 0, 1, 1]), (0.45, 0.46, [1, 1, 1, 1]), (0.09, 0.0, [0, 0, 0, 0]))
    for limit, floor, kept in cases:
        found = weights(M.estr(limit, floor), seen, [1.0, -1.0, -1.0, 1.0])
        signs = zip(kept, [1.0, -1.0, -1.0, 1.0], strict=True)
        assert found == pytest.approx([k * math.exp(0.2) * a for k, a in signs])


def test_a_uniform_policy_makes_one_region_of_all():
    """Then it is a band on the log ratio: the factor of that width."""
    trial = case(4, N=5, T=3, drift=0.3)
    entropy = trial.evaluate(M.reinforce(entropy=0.1))[0].current["entropy"]
    floor = float(entropy.max()) + 1.0
    banded = M.full_is("token", sim.advantages.group_mean(), "token_mean")
    banded = banded.replace(factors=(sim.factors.log_clamp(0.2 * floor),))
    assert torch.equal(trial.gradient(M.estr(0.2, floor)), trial.gradient(banded))
    assert not torch.equal(trial.gradient(M.estr(0.2, 0.0)), trial.gradient(banded))


def test_what_they_refuse():
    for lower in (5.0, np.array([1.0, 6.0])):
        with pytest.raises(InputError, match="lower"):
            M.clip_cov(lower=lower, upper=5.0)
