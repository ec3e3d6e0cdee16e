"""Samplers with rounded weights: against rounding by hand, and what of the ratio is mismatch and what staleness."""

import numpy as np
import pytest
import torch
from torch import nn

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.policies._mlp_network import levels
from asyncsim.step import versions
from asyncsim.step.batch import Draws
from tests.contracts.laboratory import plain_batch
from tests.refusals import refused

R, G, N, D, A = 2, 2, 3, 3, 4


class Pair(nn.Module):
    """Logits and a value from one hidden layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.critic = nn.Linear(D, 5), nn.Linear(5, A), nn.Linear(5, 1)

    def forward(self, seen):
        hidden = torch.tanh(self.first(seen))
        return self.last(hidden), self.critic(hidden)


POLICIES = {
    "mlp": lambda sampler: sim.policies.mlp(D, A, hidden=(5,), gain=1.0, normalize=True, sampler=sampler),
    "normal mlp": lambda sampler: sim.policies.mlp(D, 2, "gaussian", hidden=(5,), gain=1.0, sampler=sampler),
    "module": lambda sampler: sim.policies.module(Pair, D, A, critic=True, sampler=sampler),
}


def bfloat16(number):
    """The nearest number of 8 significant bits; ties are as rare as they are in random numbers."""
    if number == 0.0:
        return 0.0
    unit = 2.0 ** (np.floor(np.log2(abs(number))) - 7)
    return float(np.round(number / unit) * unit)


def by_hand(matrix, form, units):
    """A matrix whose rows are the `units` that share a scale, rounded number by number."""
    if form == "bfloat16":
        return [[bfloat16(number) for number in row] for row in matrix]
    return [[round(x / (max(map(abs, row)) / 127.0)) * max(map(abs, row)) / 127.0 for x in row] for row in matrix]


@pytest.mark.parametrize("form", ["bfloat16", "int8"])
@pytest.mark.parametrize("name", ["mlp", "module"])
def test_weights_are_rounded_as_by_hand(name, form):
    policy = POLICIES[name](form)
    published = policy.prepare(policy.initial(R, torch.float64, 3) + 0.1)
    sampled = policy.install(published, None)["sampled"]
    for r in range(R):
        flat, found = published["parameters"][r].numpy(), sampled[r].numpy()
        # The first matrix: inputs by units in the perceptron, units by inputs in a module.
        shape = (D, 5) if name == "mlp" else (5, D)
        first, rounded = (x[: D * 5].reshape(shape) for x in (flat, found))
        first, rounded = (first.T, rounded.T) if name == "mlp" else (first, rounded)
        np.testing.assert_allclose(rounded, by_hand(first.tolist(), form, 5), rtol=1e-12, atol=0)
        bias = slice(D * 5, D * 5 + 5)
        expected = [bfloat16(x) for x in flat[bias]] if form == "bfloat16" else flat[bias]
        np.testing.assert_array_equal(found[bias], expected)
    if name == "mlp":
        layout = policy.layout
        assert torch.equal(sampled[:, layout.critic_begin :], published["parameters"][:, layout.critic_begin :])


def acted(policy, flat):
    """What is drawn at published weights `[R, P]` and recorded, and the same as a batch."""
    view = versions.current(policy.install(policy.prepare(flat)))
    seen = torch.from_numpy(np.random.default_rng(0).normal(size=(R, G, N, D)))
    ids = np.arange(G * N).reshape(1, G, N)
    act = policy.act(view, seen, Draws(rng.Stream(5, "rollout"), np.arange(R), np.zeros(R, dtype=np.int64), ids), 0)
    return act, plain_batch(act.action.unsqueeze(3), seen.unsqueeze(3), behavior=act.outputs, view=view), view


@pytest.mark.parametrize("form", ["bfloat16", "int8"])
@pytest.mark.parametrize("name", POLICIES)
def test_what_is_recorded_is_what_rounded_weights_say(name, form):
    """Drawn and recorded as by a policy whose weights are the rounded ones; scored, valued and trained as without."""
    policy, plain = POLICIES[name](form), POLICIES[name](None)
    assert policy.mismatched and not plain.mismatched and policy.size == plain.size
    flat = policy.initial(R, torch.float64, 3)
    act, batch, view = acted(policy, flat)
    rounded, _, _ = acted(plain, view.weights["sampled"][0])
    assert torch.equal(act.action, rounded.action)
    assert torch.equal(act.outputs["log_prob"], rounded.outputs["log_prob"])
    own = plain.forward(versions.current(plain.prepare(flat)), batch, ("log_prob", "value"))
    torch.testing.assert_close(act.outputs["value"], own.outputs["value"][..., 0], rtol=0, atol=1e-12)
    scored = policy.compared(view, batch)["scored_log_prob"]
    assert torch.equal(scored, own.outputs["log_prob"])
    assert 1e-6 < (scored[..., 0] - act.outputs["log_prob"]).abs().max() < 0.1
    again = policy.forward(view, batch, ("log_prob",)).pullback({"log_prob": torch.ones_like(scored)})
    assert torch.equal(again, own.pullback({"log_prob": torch.ones_like(scored)}))


def test_weights_that_have_few_bits_are_left_alone():
    policy = POLICIES["mlp"]("bfloat16")
    flat = policy.initial(R, torch.float64, 3).bfloat16().double()
    act, batch, view = acted(policy, flat)
    assert torch.equal(policy.compared(view, batch)["scored_log_prob"][..., 0], act.outputs["log_prob"])
    assert torch.equal(levels(torch.zeros(2, 2), 1), torch.zeros(2, 2))


def run(sampler, lr=0.05, staleness=2, **changes):
    task = sim.tasks.gym("CartPole-v1", steps=16)
    names = ["kl_k1", "kl_staleness", "kl_mismatch", "mismatch_variance", "staleness_variance", "mean_weight"]
    chain = sim.chain(sim.updates.sgd(lr))
    policy = task.policy(sampler=sampler, gain=1.0, hidden=(8,))
    sizes = {"replicates": 3, "samples_per_group": 8, "updates": 6, "diagnostics": names, **changes}
    return sim.run(sim.Spec(task, sim.schedules.fixed(staleness), sim.methods.a2c(), chain, policy, **sizes), seed=1)


@pytest.mark.parametrize("drawing", [{}, {"block": 2}])
def test_ratios_split_into_rounding_and_staleness(drawing):
    """The parts add up; rounding is there from the first update on, staleness from the second."""
    for sampler in ("bfloat16", "int8"):
        trace = run(sampler, **drawing)
        np.testing.assert_allclose(trace["kl_k1"], trace["kl_staleness"] + trace["kl_mismatch"], rtol=0, atol=1e-6)
        assert (trace["mismatch_variance"] > 1e-8).all()
        assert (trace["staleness_variance"][0] == 0).all() and (trace["staleness_variance"][3:] > 1e-8).all()
    exact = run(None, **drawing)
    assert (exact["mismatch_variance"] == 0.0).all() and (exact["kl_mismatch"] == 0.0).all()


def test_a_rounded_sampler_has_mean_ratio_one():
    """What is logged is what was drawn from: 5 standard errors over 64 samples of 16 tokens and 3 replicates.

    False alarms below 1 in 1e6. A log-prob of the exact weights would have ratio 1 on every sample.
    """
    trace = run("int8", lr=0.0, staleness=0, samples_per_group=64, updates=4)
    error = np.sqrt(trace["mismatch_variance"].mean() / (64 * trace["mean_weight"].size))
    assert 0.0 < error < 0.01 and abs(trace["mean_weight"].mean() - 1.0) < 5.0 * error


def test_other_formats_and_arguments_are_refused():
    for make in POLICIES.values():
        refused("sampler = 'float16': must be one of bfloat16, int8", make, "float16")
    refused("policy argument = 'actions': must be one of", lambda: sim.tasks.gym("CartPole-v1").policy(actions=3))
