"""Gradients of actor-critics: exact expectations under exact critics, and autograd of the written losses."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from tests.contracts import test_policies as policies
from tests.contracts.laboratory import NOTHING, step_of
from tests.methods.enumerated import Chain, Judge
from tests.methods.sums import Plain, retrace_target, vtrace_target

seeds = given(seed=st.integers(0, 10**6))


# Exact values of actions: the mean gradient under any data.


def judged(seed, T, drift=1.0, spoil=0.0):
    """A chain with the exact Q of its policy, off by `spoil`, and the gradient at the states that mu visits."""
    chain = Chain(seed, T=T, drift=drift)
    A = chain.new.shape[1]
    rows = torch.log_softmax(chain.new, -1)
    table = torch.zeros_like(chain.new)
    if T == 1:
        table[0] = chain.worth
    else:
        table[1:] = chain.worth.reshape(A, A)
        table[0] = (rows[1:].exp() * table[1:]).sum(-1)
    noise = torch.from_numpy(np.random.default_rng(seed).normal(size=table.shape))
    chain.policy = Judge(chain.policy, table + spoil * noise)
    states = torch.zeros(len(table), dtype=torch.float64)
    chance = chain.chance(chain.old)
    for t in range(T):
        states.scatter_add_(0, chain.state[:, t], chance)
    value = (rows.exp() * table).sum(-1, keepdim=True)
    return chain, states.unsqueeze(-1) * rows.exp() * (table - value)


FREE = {"critic": 0.0, "aggregator": "sequence_sum"}
EXACT = sim.advantages.retrace(1.0)


@given(
    seed=st.integers(0, 10**6),
    T=st.sampled_from([1, 2]),
    cap=st.sampled_from([0.0, 0.3, 1.0, 2.0, 1e6]),
    drift=st.sampled_from([0.0, 1.0, 3.0]),
)
def test_with_exact_values_the_cap_of_acer_does_not_move_the_mean(seed, T, cap, drift):
    chain, expected = judged(seed, T, drift)
    found = chain.mean(sim.methods.acer(cap, EXACT, **FREE), chain.worth)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    plain = chain.mean(sim.methods.retrace(None, EXACT, **FREE), chain.worth)
    torch.testing.assert_close(plain, expected, rtol=1e-9, atol=1e-11)
    if T == 1:
        slope = chain.slope(lambda table: (chain.chance(table) * chain.worth).sum())
        torch.testing.assert_close(found, slope, rtol=1e-9, atol=1e-11)


def test_truncation_without_the_correction_is_biased_and_so_is_a_wrong_critic():
    chain, expected = judged(5, 2)
    short = chain.mean(sim.methods.retrace(0.5, EXACT, **FREE), chain.worth)
    assert (short - expected).abs().max() > 0.01
    wrong, expected = judged(5, 2, spoil=0.5)
    assert (wrong.mean(sim.methods.acer(0.5, EXACT, **FREE), wrong.worth) - expected).abs().max() > 0.01


@given(seed=st.integers(0, 10**6), T=st.sampled_from([2]), drift=st.sampled_from([0.0, 1.0]))
def test_exact_values_have_no_error_under_any_data(seed, T, drift):
    """Q_ret = Q sequence by sequence, since transitions are certain here."""
    chain, _ = judged(seed, T, drift)
    signal, _ = chain.signal(sim.methods.acer(1.0, EXACT, critic=0.3), chain.worth)
    torch.testing.assert_close(signal.targets, signal.current["action_value"], rtol=1e-11, atol=1e-11)


# Losses with a critic, differentiated.


def staged(name, seed):
    """A perceptron, old and new parameters, and a batch of the old ones with ends and cuts."""
    policy, theta, batch, _ = policies.problem(name, seed)
    random = np.random.default_rng(seed)
    view = versions.current(policy.prepare(theta[1]))
    shape = tuple(batch.mask.shape)
    wanted = ("log_prob", "value") if name == "mlp" else ("log_prob",)
    ended = torch.from_numpy(random.random(shape) < 0.3)
    stops = ended.clone()
    stops[..., -1] = True
    cut = stops & torch.from_numpy(random.random(shape) < 0.5)
    batch = dataclasses.replace(batch, view=view, token_reward=torch.from_numpy(random.normal(size=shape)), ended=ended)
    batch.behavior = policy.forward(view, batch, wanted).outputs
    batch.behavior["successor_value"] = torch.where(cut, torch.from_numpy(random.normal(size=shape)), 0.0)
    return policy, theta, batch


def written_out(policy, theta, batch, name):
    """The plain numbers of a staged batch at the parameters `theta`."""
    now = policies.log_density(name, policy, theta, batch.state, batch.action)
    plain = Plain(0, batch.mask.shape[-1], masked=False)
    plain.reward, plain.ended = batch.token_reward.numpy(), batch.ended.numpy()
    plain.beyond, plain.stops = batch.behavior["successor_value"].numpy(), batch.ended.numpy().copy()
    plain.stops[..., -1] = True
    plain.log_ratio = (now["log_prob"] - batch.behavior["log_prob"]).numpy()
    if name == "mlp":
        plain.value = now["value"].numpy()
    else:
        plain.taken, prob = now["action_value"].numpy(), now["log_probs"].exp()
        plain.expected = (prob * now["action_values"]).sum(-1).numpy()
    return plain


def loss_slope(policy, theta, batch, name, objective):
    live = theta.clone().requires_grad_()
    outputs = policies.log_density(name, policy, live, batch.state, batch.action)
    (found,) = torch.autograd.grad(objective(outputs).mean((1, 2, 3)).sum(), live)
    return found


def product(method, policy, theta, batch):
    return evaluate(method, NOTHING, policy, policy.prepare(theta), dataclasses.replace(batch, index=None)).gradient


@seeds
def test_vtrace_is_autograds_of_its_loss(seed):
    policy, theta, batch = staged("mlp", seed)
    plain = written_out(policy, theta[0], batch, "mlp")
    target = vtrace_target(plain, 0.9, 0.8, 1.5, 0.7)
    mixed = 0.8 * target + 0.2 * plain.value
    error = plain.each(lambda i, t: plain.reward[i][t] + 0.9 * plain.after(mixed, i, t) - plain.value[i][t])
    weight = torch.from_numpy(np.minimum(np.exp(plain.log_ratio), 1.2) * error)

    def objective(found):
        critic = (found["value"] - torch.from_numpy(target)) ** 2
        return weight * found["log_prob"] + 0.03 * found["entropy"] - 0.4 * critic

    method = sim.methods.vtrace(1.2, sim.advantages.vtrace(0.9, 0.8, 1.5, 0.7), critic=0.4, entropy=0.03)
    expected = loss_slope(policy, theta[0], batch, "mlp", objective)
    torch.testing.assert_close(product(method, policy, theta[0], batch), expected, rtol=1e-9, atol=1e-10)
    assert (product(method.replace(critic=0.2), policy, theta[0], batch) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["retrace", "acer"])
@seeds
def test_losses_on_retrace_are_autograds(name, seed):
    policy, theta, batch = staged(policies.ACTION, seed)
    plain = written_out(policy, theta[0], batch, policies.ACTION)
    target = torch.from_numpy(retrace_target(plain, 0.9, 0.8))
    advantage = target - torch.from_numpy(plain.expected)
    cap = {"retrace": 1e9, "acer": 0.6}[name]
    weight = torch.from_numpy(np.exp(plain.log_ratio)).clamp(max=cap) * advantage
    mu = policies.log_density(policies.ACTION, policy, theta[1], batch.state, batch.action)["log_probs"]

    def objective(found):
        pi, every = found["log_probs"].detach(), found["action_values"].detach()
        open_ = (1 - cap / (pi - mu).exp()).clamp(min=0.0)
        rest = pi.exp() * open_ * (every - torch.from_numpy(plain.expected).unsqueeze(-1))
        actor = weight * found["log_prob"] + (rest * found["log_probs"]).sum(-1) * (name == "acer")
        return actor + 0.03 * found["entropy"] - 0.4 * (found["action_value"] - target) ** 2

    parts = {"advantage": sim.advantages.retrace(0.9, 0.8), "critic": 0.4, "entropy": 0.03}
    method = sim.methods.acer(cap, **parts) if name == "acer" else sim.methods.retrace(**parts)
    expected = loss_slope(policy, theta[0], batch, policies.ACTION, objective)
    torch.testing.assert_close(product(method, policy, theta[0], batch), expected, rtol=1e-9, atol=1e-10)
    assert (product(method.replace(critic=0.2), policy, theta[0], batch) - expected).abs().max() > 1e-3


@seeds
def test_a3c_is_the_whole_gradient_of_the_old_parameters(seed):
    """Score, entropy and the critic's error; A2C on the same data has another gradient."""
    policy, theta, batch = staged("mlp", seed)
    plain = written_out(policy, theta[1], batch, "mlp")
    advantage = sim.advantages.n_step(2, 0.9)
    target = advantage.targets(step_of(batch))

    def objective(found):
        gain = (target - torch.from_numpy(plain.value)) * found["log_prob"]
        return gain + 0.03 * found["entropy"] - 0.4 * (found["value"] - target) ** 2

    method = sim.methods.a3c(advantage=advantage, critic=0.4, entropy=0.03)
    expected = loss_slope(policy, theta[1], batch, "mlp", objective)
    found = product(method, policy, theta[0], batch)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)
    assert torch.equal(found, product(method, policy, theta[1], batch)), "the current parameters do not enter"
    fresh = product(sim.methods.a2c(advantage, critic=0.4, entropy=0.03), policy, theta[0], batch)
    assert (fresh - found).abs().max() > 1e-3
    same = product(sim.methods.a2c(advantage, critic=0.4, entropy=0.03), policy, theta[1], batch)
    torch.testing.assert_close(same, found, rtol=1e-11, atol=1e-12)
