"""V-trace, Retrace and n-step returns against written-out sums, and the methods on them from run to run."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.methods._method import evaluate
from tests.contracts.laboratory import NOTHING, trial_of
from tests.methods.enumerated import Chain, Judge
from tests.methods.sums import Plain, retrace_target, vtrace_target

tokens = st.sampled_from([1, 2, 6])


def agree(found, expected, slack=1e-12):
    np.testing.assert_allclose(found.numpy(), expected, rtol=slack, atol=slack)


rates = st.sampled_from([0.0, 0.5, 0.9, 1.0])
caps = st.sampled_from([0.3, 1.0, 2.5, 1e9])


@given(seed=st.integers(0, 10**6), T=tokens, discount=rates, trace=rates, rho_cap=caps, trace_cap=caps)
def test_vtrace_is_the_printed_sum(seed, T, discount, trace, rho_cap, trace_cap):
    plain = Plain(seed, T)
    advantage = sim.advantages.vtrace(discount, trace, rho_cap, trace_cap)
    samples = plain.samples()
    target = vtrace_target(plain, discount, trace, rho_cap, trace_cap)
    agree(advantage.targets(samples), target, 1e-10)
    mixed = trace * target + (1 - trace) * plain.value
    expected = plain.each(lambda i, t: plain.reward[i][t] + discount * plain.after(mixed, i, t) - plain.value[i][t])
    agree(advantage(samples), expected, 1e-10)


def test_a_product_one_token_off_is_seen():
    """With the ratios of s + 1 to t in place of s to t - 1, as Retrace has them."""
    plain = Plain(3)
    right, off = (vtrace_target(plain, 0.9, 1.0, 1.0, 1.0, shift) for shift in (0, 1))
    agree(sim.advantages.vtrace(0.9).targets(plain.samples()), right)
    assert np.abs(off - right).max() > 0.1


@given(seed=st.integers(0, 10**6), T=tokens, discount=rates)
def test_without_lag_vtrace_is_a_return_minus_the_value(seed, T, discount):
    plain = Plain(seed, T, drift=0.0)
    one, two = sim.advantages.vtrace(discount), sim.advantages.gae(discount, 1.0)
    samples = plain.samples()
    torch.testing.assert_close(one(samples), two(samples), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(one.targets(samples), two.targets(samples), rtol=1e-11, atol=1e-11)


@given(seed=st.integers(0, 10**6), cap=st.sampled_from([0.2, 1.0, 3.0, 1e6]))
def test_the_cap_of_rho_names_the_policy_whose_value_is_learned(seed, cap):
    """At V = the value of the policy proportional to min(cap mu, pi), the mean correction is 0."""
    chain = Chain(seed, A=4, T=1)
    mu, pi = chain.chance(chain.old), chain.chance(chain.new)
    mixed = torch.minimum(cap * mu, pi)
    value = (mixed * chain.worth).sum() / mixed.sum()
    chain.policy = Judge(chain.policy, torch.zeros_like(chain.new), value.reshape(1))
    signal, _ = chain.signal(sim.methods.vtrace(advantage=sim.advantages.vtrace(1.0, rho_cap=cap)), chain.worth)
    assert abs((mu * (signal.targets[0, 0, :, 0] - value)).sum()) < 1e-12
    if cap == 1e6:
        assert abs(value - (pi * chain.worth).sum()) < 1e-12


@given(seed=st.integers(0, 10**6), T=tokens, discount=rates, trace=rates)
def test_retrace_is_the_printed_sum(seed, T, discount, trace):
    plain, advantage = Plain(seed, T), sim.advantages.retrace(discount, trace)
    target = retrace_target(plain, discount, trace)
    agree(advantage.targets(plain.samples()), np.where(plain.mask, target, 0.0), 1e-10)
    agree(advantage(plain.samples()), np.where(plain.mask, target - plain.expected, 0.0), 1e-10)


def test_the_value_of_the_next_action_in_place_of_its_mean_is_seen():
    plain = Plain(1)
    wrong = retrace_target(plain, 0.9, 1.0, behind=plain.taken)
    assert np.abs(wrong - retrace_target(plain, 0.9, 1.0)).max() > 0.1


@given(seed=st.integers(0, 10**6), T=tokens, discount=rates, steps=st.sampled_from([1, 2, 5, 50]))
def test_n_step_returns_are_written_out(seed, T, discount, steps):
    plain = Plain(seed, T)

    def one(i, s):
        total = 0.0
        for t in plain.rest(i, s):
            total += discount ** (t - s) * plain.reward[i][t]
            if plain.stops[i][t] or t - s + 1 == steps:
                return total + discount ** (t - s + 1) * plain.after(plain.value, i, t)

    target, advantage = plain.each(one), sim.advantages.n_step(steps, discount)
    agree(advantage.targets(plain.samples()), target, 1e-11)
    agree(advantage(plain.samples()), np.where(plain.mask, target - plain.value, 0.0), 1e-11)
    if steps >= T:
        torch.testing.assert_close(advantage(plain.samples()), sim.advantages.gae(discount, 1.0)(plain.samples()))


@pytest.mark.parametrize("name", ["vtrace", "retrace", "acer"])
def test_targets_follow_the_critic_from_update_to_update(name):
    """Of one batch: what reads current outputs is computed again, what reads recorded ones is not."""
    method = getattr(sim.methods, name)()
    trial = trial_of(method)
    middle = trial.policy.prepare(0.5 * trial.new + 0.5 * trial.old)
    first = evaluate(method, NOTHING, trial.policy, middle, trial.batch)
    later = evaluate(method, NOTHING, trial.policy, trial.policy.prepare(trial.new), trial.batch, first.carried())
    alone = trial.evaluate(method)[0]
    assert torch.equal(later.targets, alone.targets) and not torch.equal(first.targets, alone.targets)
    assert torch.equal(later.advantages, alone.advantages) and not torch.equal(first.advantages, alone.advantages)


def test_what_a_policy_lacks_is_named():
    world = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=4)
    for name, lacks in (("vtrace", "value"), ("retrace", "action_value"), ("acer", "action_value"), ("a3c", "value")):
        for critic in (False, True, "action"):
            if (critic == "action") == (lacks == "action_value") and critic:
                continue
            with pytest.raises(InputError, match=f"it reads .*{lacks}"):
                sim.Spec(
                    world,
                    sim.schedules.fixed(0),
                    getattr(sim.methods, name)(),
                    sim.chain(),
                    policy=sim.policies.mlp(4, 2, critic=critic),
                )
