"""A user's torch module as a policy: gradients of the built-in network, replicates apart, CartPole at staleness 16."""

import numpy as np
import pytest
import torch
from torch import nn

import asyncsim as sim
from asyncsim.base.checks import InputError


class Both(nn.Module):
    """Logits and a value."""

    def __init__(self):
        super().__init__()
        self.body, self.act, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, seen):
        hidden = torch.tanh(self.body(seen))
        return self.act(hidden), self.value(hidden)


def cartpole(policy, **changes):
    task = sim.tasks.gym("CartPole-v1", steps=40)
    update = sim.chain(sim.updates.clip_norm(0.5), sim.updates.adam(0.01))
    sizes = {"samples_per_group": 8, "updates": 6, "replicates": 3, "dtype": "float64"} | changes
    return sim.Spec(task, sim.schedules.fixed(2), sim.methods.reinforce(), update, policy=policy, **sizes)


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def test_a_module_learns_as_the_built_in_network_from_the_same_start():
    built_in = sim.policies.mlp(4, 2, hidden=(8,), critic=False, normalize=False)
    own = sim.policies.module(network, observation=4, actions=2)
    assert own.size == built_in.size
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, own.size, generator=generator, dtype=torch.float64) * 0.3
    # The built-in network stores weights [in, out] before biases, torch stores [out, in].
    parts = torch.split(start, [32, 8, 16, 2], dim=1)
    turned = [
        parts[0].reshape(3, 8, 4).mT.reshape(3, -1),
        parts[1],
        parts[2].reshape(3, 2, 8).mT.reshape(3, -1),
        parts[3],
    ]
    ours = sim.run(cartpole(own, initial=start.numpy()), seed=1)
    theirs = sim.run(cartpole(built_in, initial=torch.cat(turned, 1).numpy()), seed=1)
    for name in ("batch_return", "gradient_norm", "entropy"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, err_msg=name)


def test_mixed_versions_and_blocks_do_not_matter():
    policy = sim.policies.module(Both, observation=4, actions=2, critic=True)
    spec = cartpole(policy, updates=4).replace(method=sim.methods.a2c())
    whole, blocks = sim.run(spec, seed=2), sim.run(spec.replace(block=1), seed=2)
    np.testing.assert_allclose(whole.parameters, blocks.parameters, rtol=1e-9, atol=1e-12)
    assert not np.allclose(whole.parameters[0], whole.parameters[1])


def test_a_module_starts_every_replicate_alike_and_a_function_does_not():
    fixed = sim.policies.module(network(), observation=4, actions=2).initial(2)
    assert torch.equal(fixed[0], fixed[1])
    drawn = sim.policies.module(network, observation=4, actions=2)
    assert not torch.equal(*drawn.initial(2))
    assert torch.equal(drawn.initial(3)[2], drawn.initial(np.array([2]))[0])


@pytest.mark.rows
def test_a_users_policy_trains_on_cartpole_at_staleness_16():
    """In 12 lines, as a user writes them: later returns beat early ones in every replicate."""
    policy = sim.policies.module(
        lambda: nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)), observation=4, actions=2
    )
    spec = sim.Spec(
        sim.tasks.gym("CartPole-v1", steps=60),
        sim.schedules.fixed(16),
        sim.methods.truncated_is("token"),
        sim.chain(sim.updates.clip_norm(0.5), sim.updates.adam(0.01)),
        policy=policy,
        samples_per_group=16,
        updates=90,
        replicates=3,
        diagnostics=("batch_return",),
    )
    returns = sim.run(spec, seed=0)["batch_return"]
    assert (returns[-15:].mean(0) > 1.4 * returns[:17].mean(0)).all()


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (3, {}, "make"),
        (lambda: 3, {}, "make"),
        (nn.Identity, {}, "parameters of the module"),
        (lambda: nn.Linear(4, 3), {}, "logits of the module"),
        (lambda: nn.Linear(5, 2), {}, "module"),
        (lambda: nn.Linear(4, 2), {"critic": True}, "module"),
        (lambda: nn.Linear(4, 2), {"actions": 1}, "actions"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_line(make, options, message):
    with pytest.raises(InputError, match=message) as caught:
        sim.policies.module(make, **{"observation": 4, "actions": 2, **options})
    assert "\n" not in str(caught.value)
