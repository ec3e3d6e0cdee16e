"""Score centering, and the optimal token baseline by hand."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.contracts.laboratory import case, step_of, step_with
from tests.methods.enumerated import Chain
from tests.refusals import refused

NONE = {"advantage": sim.advantages.none(), "aggregator": "sequence_sum"}


def centered(weight="none", cap=2.0, top=None):
    return sim.methods.score_centering(weight, cap, top, **NONE)


# Score centering.


def test_a_constant_reward_has_no_gradient_and_pulls_without_centering():
    """E_mu[score] is not 0 under stale data: the policy is drawn back to the sampler."""
    chain = Chain(1, drift=1.0)
    ones = torch.ones_like(chain.worth)
    assert chain.mean(centered(), ones).abs().max() < 1e-14
    assert chain.mean(centered("truncated", 1.2), ones).abs().max() < 1e-14
    plain = chain.mean(sim.methods.reinforce(sim.advantages.none()), ones)
    assert (plain * (chain.old - chain.new)).sum() > 0.01, "toward the old logits"


@given(seed=st.integers(0, 10**6))
def test_with_the_full_ratio_there_is_nothing_to_subtract(seed):
    trial = case(seed, drift=0.5)
    full = sim.methods.full_is("token", advantage=sim.advantages.group_mean(), aggregator="token_mean")
    wide = sim.methods.score_centering("truncated", cap=1e9)
    assert (trial.gradient(wide) - trial.gradient(full)).abs().max() < 1e-14
    tight = sim.methods.score_centering("truncated", cap=1.0)
    truncated = sim.methods.truncated_is("token", cap=1.0)
    assert (trial.gradient(tight) - trial.gradient(truncated)).abs().max() > 1e-4


def proportional(seed, A, top):
    """A bandit whose policy is proportional to the sampler on all but the sampler's `top` likeliest actions."""
    chain = Chain(seed, A=A, T=1, drift=0.0)
    moved = chain.old.clone()
    head = chain.old[0].topk(top).indices
    moved[0, head] += torch.from_numpy(np.random.default_rng(seed).normal(size=top))
    chain.new = moved
    return chain


@given(seed=st.integers(0, 10**6), top=st.sampled_from([1, 2, 4]), weight=st.sampled_from(["none", "truncated"]))
def test_the_likeliest_actions_are_enough_where_the_rest_moved_alike(seed, top, weight):
    chain = proportional(seed, 6, top)
    whole, few = (chain.mean(centered(weight, 1.3, k), chain.worth) for k in (None, top))
    torch.testing.assert_close(few, whole, rtol=1e-9, atol=1e-11)
    everything = chain.mean(centered(weight, 1.3, 6), chain.worth)
    torch.testing.assert_close(everything, whole, rtol=1e-12, atol=1e-14)


def test_elsewhere_they_are_not():
    chain = Chain(2, A=6, T=1, drift=1.0)
    whole, few = (chain.mean(centered(top=k), chain.worth) for k in (None, 2))
    assert (whole - few).abs().max() > 1e-3
    assert (chain.mean(centered(top=2), chain.worth) - chain.mean(centered(top=3), chain.worth)).abs().max() > 1e-3


def test_the_head_is_the_samplers():
    """Actions 0 and 1 are the likeliest under mu, 2 under pi."""
    mu, pi = (torch.tensor([p], dtype=torch.float64).log() for p in ([0.5, 0.3, 0.2], [0.1, 0.2, 0.7]))
    seen = step_with(torch.zeros(1, 1, 1, 1, dtype=torch.float64), elsewhere=lambda name: mu.reshape(1, 1, 1, 1, 3))
    seen.current["log_probs"] = pi.reshape(1, 1, 1, 1, 3)
    found = centered(top=2).weight.spread(seen, torch.full((1, 1, 1, 1), -2.0).double())
    rho = 0.2 / 0.7
    expected = 2.0 * torch.tensor([0.5 - rho * 0.1, 0.3 - rho * 0.2, 0.0])
    torch.testing.assert_close(found.flatten(), expected.double(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("settings", [{}, {"weight": "truncated"}, {"top": 1}, {"weight": "truncated", "top": 2}])
def test_without_lag_it_is_the_policy_gradient(settings):
    trial = case(3, drift=0.0)
    plain = sim.methods.reinforce(sim.advantages.group_mean(), "token_mean")
    assert (trial.gradient(sim.methods.score_centering(**settings)) - trial.gradient(plain)).abs().max() < 1e-14


def test_rows_of_the_sampler_must_be_known():
    trial = case(0)
    with pytest.raises(InputError, match="behavior log_probs = None: must be recorded or computable"):
        trial.gradient(sim.methods.score_centering(), view=None)
    recorded = trial.policy.forward(trial.batch.view, trial.batch, ("log_probs",)).outputs["log_probs"]
    behavior = {**trial.batch.behavior, "log_probs": recorded}
    one = trial.gradient(sim.methods.score_centering(), view=None, behavior=behavior)
    assert torch.equal(one, trial.gradient(sim.methods.score_centering()))


# Optimal token baseline.


def group(lengths, rewards, norms, weights):
    """Samples of one group from tables `[N, T]`, the reward of each at its end."""
    T = max(lengths)
    mask = (torch.arange(T) < torch.tensor(lengths).unsqueeze(-1)).double()[None, None]
    reward = torch.tensor(rewards, dtype=torch.float64)[None, None]
    whole = case(R=1, G=1, N=len(lengths), T=T).batch
    batch = dataclasses.replace(whole, mask=mask, reward=reward)
    norms, weights = (torch.tensor(x, dtype=torch.float64)[None, None] for x in (norms, weights))
    return step_of(batch, row_norms=norms, applied=weights)


NAN = float("nan")


def test_by_hand():
    """Lengths 1, 2, 3; squared scores 1, 2, 1 / 4, 4 / 9 ...; token weights enter inside or outside the sum."""
    samples = group(
        [1, 2, 3],
        [1.0, 0.0, 4.0],
        [[1.0, NAN, NAN], [2.0, 1.0, NAN], [1.0, 1.0, 2.0]],
        [[1.0, NAN, NAN], [1.0, 2.0, NAN], [2.0, 1.0, 1.0]],
    )
    inside, outside = (sim.advantages.otb(where)(samples)[0, 0] for where in ("inside", "outside"))
    first = (1 * 1 + 2 * 0 + 4 * 4) / (1 + 2 + 4)
    second = {"inside": (6 * 0 + 5 * 4) / (6 + 5), "outside": (12 * 0 + 2 * 4) / (12 + 2)}
    for found, name in ((inside, "inside"), (outside, "outside")):
        b = second[name]
        expected = [[1 - first, 0, 0], [-first, -b, 0], [4 - first, 4 - b, 4.0]]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    own = sim.advantages.otb(alone="own")(samples)[0, 0]
    assert own[2, 2] == 0.0 and torch.equal(own[:, :2], inside[:, :2])


@given(seed=st.integers(0, 10**6))
def test_inside_and_outside_agree_for_weights_of_sequences_alone(seed):
    trial = case(seed, R=2, G=2, N=4, T=4, drift=0.5, ragged=False)
    for level, same in (("sequence", True), ("token", False)):
        one, two = (
            trial.gradient(sim.methods.full_is(level, advantage=sim.advantages.otb(where)))
            for where in ("inside", "outside")
        )
        assert ((one - two).abs().max() < 1e-11 * one.abs().max()) == same


@given(seed=st.integers(0, 10**6), drift=st.sampled_from([0.0, 0.5, 2.0]))
def test_on_one_token_it_is_the_baseline_of_least_variance(seed, drift):
    """In a table the score of one token has its squared length, so that both optimal baselines are one."""
    trial = case(seed, N=5, T=1, drift=drift)
    for method in (sim.methods.reinforce, sim.methods.truncated_is, sim.methods.full_is):
        one, two = (
            trial.evaluate(method(advantage=a))[0].advantages for a in (sim.advantages.otb(), sim.advantages.opob())
        )
        torch.testing.assert_close(one[..., 0], two, rtol=1e-9, atol=1e-11)


def test_squared_scores_are_those_of_the_logits():
    trial = case(4)
    signal, _ = trial.evaluate(sim.methods.reinforce(sim.advantages.otb()))
    norms = signal.row_norms
    for token in range(trial.batch.mask.shape[-1]):
        alone = torch.zeros_like(trial.batch.mask)
        alone[..., token] = 1.0
        expected = trial.policy.score_norm(signal.view, trial.batch, alone)
        torch.testing.assert_close(norms[..., token], expected, rtol=1e-12, atol=1e-13)


def test_weights_that_vanish_leave_the_plain_mean_of_those_still_going():
    samples = group([2, 2, 1], [1.0, 0.0, 4.0], np.ones((3, 2)).tolist(), np.zeros((3, 1)).tolist())
    found = sim.advantages.otb()(samples)[0, 0]
    expected = torch.tensor([[1 - 5 / 3, 0.5], [-5 / 3, -0.5], [4 - 5 / 3, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_bad_settings_are_refused():
    refused("samples_per_group = 1", lambda: sim.advantages.otb().check(1))
    refused("top = 0", sim.methods.score_centering, top=0)
    for method in (sim.methods.score_centering(), sim.methods.reinforce(sim.advantages.otb())):
        with pytest.raises(InputError, match="it reads log_probs"):
            sim.Spec(sim.tasks.gaussian_bandit(), sim.schedules.fixed(0), method, sim.chain())
