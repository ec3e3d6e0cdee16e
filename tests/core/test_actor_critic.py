"""Actor-critic methods on perceptrons: gradients against autograd of the written losses, and short runs end to end."""

import dataclasses

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.methods._method import evaluate
from asyncsim.step import versions
from tests.core import test_gae as data
from tests.core import test_mlp as mlp
from tests.refusals import refused

GAE = sim.advantages.gae(0.9, 0.8)
METHODS = {
    "a2c": lambda: sim.methods.a2c(GAE, critic=0.4, entropy=0.03),
    "ppo": lambda: sim.methods.ppo_clip(0.2, 0.1, advantage=GAE, critic=0.4, entropy=0.03),
    "grpo": lambda: sim.methods.grpo(0.2, 0.1, advantage=GAE, critic=0.4, entropy=0.03, aggregator="token_mean"),
    "reinforce": lambda: sim.methods.reinforce(GAE, critic=0.4, entropy=0.03, aggregator="token_mean"),
}
NOTHING = sim.tasks.token_bandit(actions=3, horizon=3, dependence="markov")


def written(name, outputs, old, advantage, target, mask):
    """The loss as the papers print it, to be ascended, for one replicate."""
    ratio = torch.where(mask > 0, outputs["log_prob"] - old, 0.0).exp()
    surrogate = outputs["log_prob"] * advantage
    if name in ("ppo", "grpo"):
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.1) * advantage)
    return ((surrogate + 0.03 * outputs["entropy"] - 0.4 * (outputs["value"] - target) ** 2) * mask).sum() / mask.sum()


@pytest.mark.parametrize("head", mlp.HEADS)
@pytest.mark.parametrize("name", METHODS)
def test_gradient_is_autograds_of_the_loss(name, head):
    """Planted: a critic of another coefficient gives another gradient."""
    policy, theta, batch, _ = mlp.problem(head, 20)
    random = np.random.default_rng(20)
    view = versions.current(policy.prepare(theta[1]))
    behavior = policy.forward(view, batch, ("log_prob", "value")).outputs
    behavior["successor_value"] = torch.zeros_like(batch.mask)
    batch = dataclasses.replace(batch, behavior=behavior, view=view, realization=np.zeros(mlp.R, dtype=np.int64))
    batch.token_reward = torch.from_numpy(random.normal(size=batch.mask.shape)) * batch.mask
    batch.ended = torch.zeros_like(batch.mask, dtype=torch.bool)
    signal = evaluate(METHODS[name](), NOTHING, policy, policy.prepare(theta[0]), batch)
    gradient = signal.gradient
    samples = data.samples(batch)
    advantage, target = GAE(samples), GAE.targets(samples)
    assert torch.equal(signal.targets, target)
    for r in range(mlp.R):
        module = mlp.Module(policy, theta[0, r])
        loss = written(
            name,
            module(batch.state[r], batch.action[r]),
            behavior["log_prob"][r],
            advantage[r],
            target[r],
            batch.mask[r],
        )
        torch.testing.assert_close(gradient[r], module.flat(loss), rtol=1e-9, atol=1e-11)
    wrong = METHODS[name]().replace(critic=0.2)
    assert (evaluate(wrong, NOTHING, policy, policy.prepare(theta[0]), batch).gradient - gradient).abs().max() > 1e-3


def cartpole(method, updates=6, **changes):
    """Segments of 16 steps of the cart-pole."""
    settings = {
        "task": sim.tasks.gym("CartPole-v1", trajectory="segment", steps=16),
        "system": sim.schedules.fixed(1),
        "method": method,
        "update": sim.chain(sim.updates.clip_norm(0.5), sim.updates.adam(0.003)),
        "samples_per_group": 3,
        "updates": updates,
        "epochs": 2,
        "replicates": 4,
        "policy": sim.policies.mlp(4, 2, hidden=(8,), normalize=True),
    }
    return sim.run(sim.Spec(**{**settings, **changes}))


@pytest.mark.parametrize("name", METHODS)
def test_a_run_moves_every_replicate_its_own_way_and_counts_what_it_saw(name):
    run = cartpole(METHODS[name]())
    final = torch.as_tensor(np.asarray(run.parameters))
    assert torch.isfinite(final).all()
    policy = sim.policies.mlp(4, 2, hidden=(8,), normalize=True)
    begun = policy.initial(4, torch.float32)
    assert ((final - begun)[:, : policy.layout.trained].abs().amax(1) > 1e-4).all()
    assert ((final[1:] - final[0]).abs().amax(1) > 1e-3).all()
    _, _, count = policy.layout.normalizer(final)
    assert (count == 3 * 16 * 3).all(), "three batches of three segments of sixteen steps"


def test_a_method_with_a_critic_refuses_a_policy_without():
    refused("value", lambda: cartpole(sim.methods.a2c(), policy=sim.policies.mlp(4, 2, critic=False)))
    refused("value", lambda: cartpole(sim.methods.reinforce(GAE), policy=sim.policies.mlp(4, 2, critic=False)))
    sim.methods.reinforce(sim.advantages.returns_to_go())


def test_bad_coefficients_are_refused():
    for make in (sim.methods.a2c, sim.methods.ppo_clip, sim.methods.grpo, sim.methods.reinforce):
        refused("critic = -1", make, critic=-1.0)
        refused("entropy = nan", make, entropy=float("nan"))
