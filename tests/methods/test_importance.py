"""Importance sampling against enumeration of a token bandit; normalization and prefixes by hand."""

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.advantages._advantage import Baseline
from asyncsim.sampling import oracle
from tests.contracts.families.importance import PAPERS
from tests.contracts.laboratory import acting, case, step_with
from tests.refusals import refused

NOW, THEN = np.array([0.4, -0.3, 0.1]), np.array([-0.2, 0.5, 0.0])
PAY = np.array([1.0, -0.5, 0.25])


def softmax(theta):
    return np.exp(theta) / np.exp(theta).sum()


def pay(action):
    """Reward of each token: by its action, more at later places."""
    return torch.from_numpy(PAY)[action] * (1.0 + torch.arange(action.shape[-1]))


@dataclass(frozen=True)
class Paid(Baseline):
    """Sums to go of `pay`; with a critic minus a value of each state, as a critic with trace 1 has them."""

    critic: bool = False

    def __call__(self, samples):
        action = samples.batch.action
        to_go = pay(action).flip(-1).cumsum(-1).flip(-1)
        # The value of a state is known before its token is drawn.
        before = torch.nn.functional.pad(action[..., :-1], (1, 0)).double()
        return to_go - 0.7 * (1.0 + before) if self.critic else to_go


@dataclass(frozen=True)
class Continued(Baseline):
    """Chance that the current policy would earn the reward of `bandit` from the tokens so far."""

    def __call__(self, samples):
        first = (samples.batch.action == 0).long().cumsum(-1)
        T = first.shape[-1]
        chance = [[at_least(math.ceil(0.6 * T) - n, T - 1 - t) for n in range(T + 1)] for t in range(T)]
        return torch.tensor(chance, dtype=torch.float64)[torch.arange(T), first]


def at_least(needed, left):
    """Chance of at least so many tokens 0 among those that are left."""
    p = softmax(NOW)[0]
    return sum(math.comb(left, k) * p**k * (1 - p) ** (left - k) for k in range(max(needed, 0), left + 1))


def bandit(tokens):
    """Reward 1 for at least 60 percent of token 0: no sum over tokens, which would need no products of ratios."""
    return sim.tasks.token_bandit(actions=3, horizon=tokens, success=0.6)


def moments(method, tokens, samples=2):
    return oracle.moments(bandit(tokens), method, NOW, THEN, samples)


def enumerated(value, tokens):
    """sum_y pi(y) value(y) grad log pi(y) over all sequences of iid tokens, one at a time."""
    pi, found = softmax(NOW), np.zeros(3)
    for y in itertools.product(range(3), repeat=tokens):
        found += math.prod(pi[a] for a in y) * value(y) * (np.bincount(y, minlength=3) - tokens * pi)
    return found


def mean_truncated(cap, tokens):
    """E_mu min(W, cap)."""
    pi, mu, found = softmax(NOW), softmax(THEN), 0.0
    for y in itertools.product(range(3), repeat=tokens):
        then = math.prod(mu[a] for a in y)
        found += then * min(math.prod(pi[a] for a in y) / then, cap)
    return found


NONE = sim.advantages.none()


# Exactness.


@pytest.mark.parametrize("tokens", [1, 2, 3])
@pytest.mark.parametrize("critic", [False, True])
def test_per_decision_is_exact_for_rewards_of_tokens(tokens, critic):
    found = moments(sim.methods.per_decision_is(Paid(critic)), tokens)
    exact = enumerated(lambda y: sum(PAY[a] * (1 + t) for t, a in enumerate(y)), tokens)
    np.testing.assert_allclose(found.mean, exact, rtol=0, atol=1e-13)


def test_per_decision_varies_less_than_the_sequence_ratio():
    """Both are exact for the same rewards; the ratios of tokens behind a reward only add noise."""

    @dataclass(frozen=True)
    class Total(Baseline):
        def __call__(self, samples):
            return pay(samples.batch.action).sum(-1)

    per_decision, whole = (
        moments(method, 3, samples=1)
        for method in (sim.methods.per_decision_is(Paid()), sim.methods.full_is(advantage=Total()))
    )
    np.testing.assert_allclose(per_decision.mean, whole.mean, rtol=0, atol=1e-13)
    assert per_decision.variance < 0.8 * whole.variance


@pytest.mark.parametrize("advantage", ["none", "leave_one_out", "group_mean", "group_std"])
def test_per_decision_is_the_sequence_ratio_where_pay_comes_last(advantage):
    given = getattr(sim.advantages, advantage)()
    one, other = moments(sim.methods.per_decision_is(given), 3), moments(sim.methods.full_is(advantage=given), 3)
    np.testing.assert_array_equal(one.mean, other.mean)
    if advantage == "none":
        paid = moments(sim.methods.per_decision_is(), 3)
        np.testing.assert_allclose(paid.mean, other.mean, rtol=0, atol=1e-15)
        np.testing.assert_allclose(paid.covariance, other.covariance, rtol=0, atol=1e-15)


def test_prefix_ratio_needs_what_the_current_policy_would_earn():
    assert np.abs(moments(sim.methods.prefix_is(Continued()), 3).bias).max() < 1e-14
    for advantage in (NONE, sim.advantages.leave_one_out()):
        assert np.abs(moments(sim.methods.prefix_is(advantage), 3).bias).max() > 1e-2
        # The last token's prefix is the sequence: with one token nothing is left to go wrong.
        assert np.abs(moments(sim.methods.prefix_is(advantage), 1).bias).max() < 1e-14


def test_per_decision_skips_tokens_of_others():
    """A masked token in the middle has ratio 1 and earns nothing; what stands there does not matter."""
    log_ratio = torch.tensor([math.log(2.0), 9.9, math.log(0.25)], dtype=torch.float64)
    then = torch.full((1, 1, 1, 3), -20.0).double()
    mask = torch.tensor([1.0, 0.0, 1.0]).double().reshape(1, 1, 1, 3)
    to_go = torch.tensor([5.0, math.nan, 2.0]).double().reshape(1, 1, 1, 3)
    method = sim.methods.per_decision_is()
    found = method.weigh(then + log_ratio, then, advantages=to_go, mask=mask).score_weight
    # Rewards 3 and 2 under prefixes 2 and 1/2.
    np.testing.assert_allclose(found.flatten(), [3 * 2 + 2 * 0.5, 0.0, 2 * 0.5], rtol=1e-14)
    straight = method.weight.score_weight(step_with(log_ratio.reshape(1, 1, 1, 3), mask=mask), to_go)
    np.testing.assert_allclose(straight.flatten()[::2], [3 * 2 + 2 * 0.5, 2 * 0.5], rtol=1e-14)


# Normalization over the step.


def test_normalized_weights_by_hand():
    """Two sequences, of 1 and 3 tokens, ratios 4; 1, 1/2, 1/2; cap 2."""
    log_ratio = torch.tensor([[4.0, 1.0, 1.0], [1.0, 0.5, 0.5]]).double().log().reshape(1, 1, 2, 3)
    mask = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]).reshape(1, 1, 2, 3)
    seen = step_with(log_ratio, mask=mask)
    token = {how: sim.methods.truncated_is("token", 2.0, normalize=how).weight for how in ("tokens", "sequences")}
    whole = {how: sim.methods.truncated_is(cap=2.0, normalize=how).weight for how in ("tokens", "sequences")}
    found = {how: weight.applied(seen)[0, 0, :, 0].tolist() for how, weight in token.items()}
    mean = {"tokens": (2 + 1 + 0.5 + 0.5) / 4, "sequences": (2 + 2 / 3) / 2}
    for how in mean:
        np.testing.assert_allclose(found[how], [2 / mean[how], 1 / mean[how]], rtol=1e-14)
    # Sequences: W = 4 and 1/4.
    mean = {"tokens": (2 + 3 * 0.25) / 4, "sequences": (2 + 0.25) / 2}
    for how, weight in whole.items():
        np.testing.assert_allclose(weight.applied(seen)[0, 0, :, 0], np.array([2, 0.25]) / mean[how], rtol=1e-14)
        assert seen.statistics["weight_before_normalization"].item() == pytest.approx(mean[how], rel=1e-14)


@pytest.mark.parametrize("cap", [1.1, 1e6])
def test_normalization_divides_the_population_by_its_mean_weight(cap):
    task, off = bandit(3), sim.advantages.offset(0.3)
    plain, normalized = (
        oracle.limit(task, sim.methods.truncated_is(cap=cap, advantage=off, normalize=how), NOW, THEN)
        for how in ("none", "sequences")
    )
    np.testing.assert_allclose(normalized * mean_truncated(cap, 3), plain, rtol=0, atol=1e-14)
    if cap > 1e3:
        np.testing.assert_allclose(normalized, plain, rtol=0, atol=1e-14)
    else:
        assert np.abs(normalized - plain).max() > 1e-3


def test_normalization_couples_the_samples_of_a_batch():
    """Where truncation is idle the population is exact, and batches of two are not."""
    settings = {"cap": 1e6, "advantage": sim.advantages.offset(0.3), "aggregator": "sequence_sum"}
    assert np.abs(moments(sim.methods.truncated_is(**settings), 2).bias).max() < 1e-14
    assert np.abs(moments(sim.methods.truncated_is(**settings, normalize="sequences"), 2).bias).max() > 1e-3


@given(shift=st.floats(-3.0, 0.0), seed=st.integers(0, 10**6), level=st.sampled_from(["token", "sequence"]))
def test_a_common_factor_of_the_weights_cancels(shift, seed, level):
    log_ratio = torch.from_numpy(np.random.default_rng(seed).uniform(-1.0, 0.0, (2, 2, 3, 4)))
    weight = sim.methods.truncated_is(level, 1.0, normalize="sequences").weight
    moved = weight.applied(step_with(log_ratio + shift))
    torch.testing.assert_close(moved, weight.applied(step_with(log_ratio)), rtol=1e-12, atol=0)


def test_normalization_fails_closed():
    """A replicate whose mean weight is no number stands still and says so; the others go on."""
    log_ratio = torch.zeros(2, 1, 2, 2).double()
    log_ratio[0, 0, 0] = torch.tensor([math.inf, -math.inf])
    seen = step_with(log_ratio)
    weight = sim.methods.truncated_is(normalize="sequences").weight.applied(seen)
    assert (weight[0] == 0).all() and (weight[1] == 1).all()
    assert seen.statistics["normalization_broken"].tolist() == [1.0, 0.0]


def test_a_step_of_equal_rewards_has_no_mean_to_divide_by():
    method = sim.methods.truncated_is("token", normalize="sequences", advantage=sim.advantages.offset(0.3))
    trial = case(drift=0.4)
    gradient = trial.gradient(method.replace(drop_equal=True), reward=torch.ones_like(trial.batch.reward))
    assert (gradient == 0).all()


# Three policies.


def test_three_policies_by_hand():
    """h = 4 is capped at 2; u = 1.5 is beyond the clip for A > 0 only, u = 0.5 for A < 0 only."""
    h, u = torch.tensor([[4.0, 4.0, 0.5], [1.5, 0.5, 1.1]], dtype=torch.float64)
    shape = (1, 1, 3, 1)
    seen = step_with((h * u).log().reshape(shape), u.log().reshape(shape))
    weight = sim.methods.three_policy_tis(2.0, 0.2, 0.2).weight
    up, down = (weight.score_weight(seen, torch.full(shape, a).double()).flatten() for a in (1.0, -1.0))
    np.testing.assert_allclose(up, [0.0, 2 * 0.5, 0.5 * 1.1], rtol=1e-14)
    np.testing.assert_allclose(down, [-2 * 1.5, 0.0, -0.5 * 1.1], rtol=1e-14)


# What the printed losses are compared under.


@pytest.mark.parametrize(
    "label", [label for label in PAPERS if label.partition(" ")[0] not in ("full_is", "prefix_is")]
)
def test_caps_clips_and_masks_bind_in_the_comparison_with_the_papers(label):
    """Without them the gradient is another one, in the same small batches."""
    method = PAPERS[label][0]()
    trial, loose = case(0, N=5, T=4, G=3, drift=0.5), method.replace(factors=())
    limits = {"cap": 1e6, "low": 1.0, "high": 1e6}
    wide = {name: value for name, value in limits.items() if getattr(method.weight, name, None) is not None}
    loose = loose.replace(weight=dataclasses.replace(method.weight, **wide)) if wide else loose
    if label.startswith("per_decision_is"):
        loose = sim.methods.full_is("token", method.advantage)
    assert (trial.gradient(method) - trial.gradient(loose)).abs().max() > 1e-3


# Refusals.


def test_rows_of_several_episodes_are_refused():
    """Their prefix would begin in another episode: neither the row's nor the episode's ratio is meant."""
    trial = acting(1, ragged=False)
    assert torch.isfinite(trial.gradient(sim.methods.per_decision_is())).all()
    ended = trial.batch.ended.clone()
    ended[0, 0, 0, 1] = True
    refused("one episode in each row", lambda: trial.gradient(sim.methods.per_decision_is(), ended=ended))


# Bounds from below, and the geometric mean as a weight.


def weights_of(method, ratios):
    """Weights of sequences of one token whose ratios are given."""
    seen = step_with(torch.tensor(ratios, dtype=torch.float64).log().reshape(1, 1, -1, 1))
    return method.weight.applied(seen).flatten().tolist()


def test_a_floor_lifts_what_is_below_it_and_nothing_else():
    """Ratios 0, 0.1, 0.7, 1, 3 and infinity between 0.5 and 2."""
    found = weights_of(sim.methods.truncated_is("token", cap=2.0, floor=0.5), [0.0, 0.1, 0.7, 1.0, 3.0, math.inf])
    np.testing.assert_allclose(found, [0.5, 0.5, 0.7, 1.0, 2.0, 2.0], rtol=1e-15)
    assert weights_of(sim.methods.truncated_is("token", cap=2.0), [0.1, 0.7]) == pytest.approx([0.1, 0.7])


def test_the_geometric_weight_is_the_root_of_the_sequence_ratio():
    """Tokens 4 and 1: s = 2, W = 4; one token of 4 has both. A cap of 3 holds one of them."""
    log_ratio = torch.tensor([[4.0, 1.0], [4.0, 1.0]], dtype=torch.float64).log().reshape(1, 1, 2, 2)
    seen = step_with(log_ratio, mask=torch.tensor([[1.0, 1.0], [1.0, 0.0]]).reshape(1, 1, 2, 2))
    found = sim.methods.truncated_is("geometric", cap=3.0).weight.applied(seen)
    assert found.shape == (1, 1, 2, 1) and found.flatten().tolist() == pytest.approx([2.0, 3.0])
