"""Pullbacks against autograd, score norms against brute force, actions against a plain inverse CDF."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.step import versions
from asyncsim.step.batch import Draws
from tests.contracts.laboratory import defined, make, names, plain_batch

R, G, N, T, D = 2, 2, 3, 3, 2
ACTION = "mlp of actions"
"""The perceptron with a value for each action."""
NETWORKS = ("mlp", ACTION, "causal_lm")
ELSEWHERE = {
    "causal_lm": {
        "tests/language/test_causal_lm.py": (
            "test_outputs_and_pullback_are_autograds",
            "test_tokens_of_two_versions_are_pulled_back_at_their_own_weights",
            "test_tokens_are_the_inverse_cdf_of_a_plain_loop",
        )
    }
}
"""Policies whose formulas take another program to write down, and the tests that hold it beside them."""
WRITTEN = [*(name for name in names("policies") if name not in ELSEWHERE), ACTION]


def perceptron(theta, begin, units, seen):
    """Outputs `[R, G, N, T, units[-1]]` of layers that lie one behind another in theta, and where they end."""
    for inputs, outputs in pairwise(units):
        weight, end = theta[:, begin : begin + inputs * outputs].reshape(R, inputs, outputs), begin + inputs * outputs
        bias = theta[:, end : end + outputs].reshape(R, 1, 1, 1, outputs)
        seen = torch.einsum("rgnti,rio->rgnto", torch.tanh(seen) if begin else seen, weight) + bias
        begin = end + outputs
    return seen, begin


def log_density(name, policy, theta, state, action):
    """What each output should be, from a textbook, differentiable in theta [R, P]; [R, G, N, T] by name."""
    if name == "tabular":
        table = torch.log_softmax(theta.reshape(R, 1, 1, 1, policy.rows, policy.actions), -1)
        index = state.reshape(*state.shape, 1, 1).expand(*state.shape, 1, policy.actions)
        rows = table.expand(*state.shape, policy.rows, policy.actions).gather(4, index).squeeze(4)
        reference = np.zeros((policy.rows, policy.actions)) if policy.reference is None else np.array(policy.reference)
        reference = torch.log_softmax(torch.from_numpy(reference), -1)[state]
        return {
            "log_prob": rows.gather(-1, action.unsqueeze(-1)).squeeze(-1),
            "entropy": torch.distributions.Categorical(logits=rows).entropy(),
            "kl": (rows.exp() * (rows - reference)).sum(-1),
            "log_probs": rows,
            "reference": reference.gather(-1, action.unsqueeze(-1)).squeeze(-1) + 0.0 * rows[..., 0],
            "reference_log_probs": reference + 0.0 * rows,
        }
    if name in ("mlp", ACTION):
        raw, end = perceptron(theta, 0, (policy.observation, *policy.hidden, policy.actions), state)
        law = torch.distributions.Categorical(logits=raw)
        found = {"log_prob": law.log_prob(action), "entropy": law.entropy(), "log_probs": law.logits}
        value, _ = perceptron(
            theta[:, end:], 0, (policy.observation, *policy.hidden, policy.actions if name == ACTION else 1), state
        )
        if name == "mlp":
            return {**found, "value": value.squeeze(-1)}
        taken = value.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        return {**found, "action_value": taken, "action_values": value}
    mean = theta.reshape(R, 1, 1, 1, -1)
    if name == "gaussian":
        return {"log_prob": torch.distributions.Normal(mean, policy.width).log_prob(action).sum(-1)}
    curvature = torch.tensor(policy.curvatures, dtype=torch.float64)
    return {"loss": (0.5 * curvature * mean**2 + action * mean).sum(-1)}


def problem(name, seed=0, tokens=T):
    """A policy with random parameters, random data on it, and random cotangents."""
    random = np.random.default_rng(seed)
    policy = {
        "tabular": lambda: sim.policies.tabular(rows=2, actions=3, reference=[[0.0, 1.0, -1.0], [0.5, 0.0, 0.0]]),
        "gaussian": lambda: sim.policies.gaussian(dimension=D, width=0.6),
        "quadratic": lambda: sim.policies.quadratic((1.0, 0.3)),
        "mlp": lambda: make("policies", "mlp"),
        ACTION: lambda: make("policies", "mlp", critic="action"),
        "causal_lm": lambda: make("policies", "causal_lm", sampler="float64", compute="float64"),
    }[name]()
    shape = (R, G, N, tokens if name in ("tabular", *NETWORKS) else 1)
    theta = torch.from_numpy(random.normal(size=(2, R, policy.size)))
    if name == "causal_lm":
        theta = policy.initial(R, torch.float64) + 0.2 * theta
    state = {
        "tabular": lambda: torch.from_numpy(random.integers(0, 2, shape)),
        "mlp": lambda: torch.from_numpy(random.normal(size=(*shape, 3))),
        ACTION: lambda: torch.from_numpy(random.normal(size=(*shape, 3))),
        "causal_lm": lambda: torch.from_numpy(random.integers(1, 40, (R, G, N, 1, 4))),
    }.get(name, lambda: torch.zeros(shape, dtype=torch.int64))()
    discrete = name in ("tabular", *NETWORKS)
    action = torch.from_numpy(random.integers(0, 3, shape) if discrete else random.normal(size=(*shape, D)))
    batch = plain_batch(action, state)
    weight = {o: torch.from_numpy(random.normal(size=wide(policy, o, shape))) for o in policy.outputs}
    return policy, theta, batch, weight


def wide(policy, output, shape):
    """Shape of an output: one number per token, or one per action."""
    return (*shape, policy.actions) if output in ("log_probs", "reference_log_probs", "action_values") else shape


def mixed_view(policy, theta, slots, realization=None):
    """Both sets of weights, with the slot of each token."""
    first, second = (policy.prepare(t) for t in theta)
    stack = {k: torch.stack([first[k], second[k]]) for k in first}
    return versions.View(stack, slots, np.arange(R) if realization is None else realization)


def test_every_policy_is_tried():
    """Here, or by name elsewhere."""
    assert set(WRITTEN) == {"tabular", "gaussian", "quadratic", "mlp", ACTION}
    assert all(defined(path, test) for files in ELSEWHERE.values() for path, tests in files.items() for test in tests)
    assert not defined("tests/language/test_causal_lm.py", "test_that_is_not_there")


def slope_error(policy, theta, batch, weight):
    """How far the pullback is from the central difference of the outputs along a random direction, relative."""
    direction = torch.from_numpy(np.random.default_rng(1).normal(size=theta[0].shape))

    def total(step):
        weights = policy.prepare(theta[0] + step * direction)
        outputs = policy.forward(versions.current(weights), batch, policy.outputs).outputs
        return sum((weight[name] * outputs[name]).flatten(1).sum(1) for name in policy.outputs)

    slope = (total(1e-5) - total(-1e-5)) / 2e-5
    pulled = policy.forward(versions.current(policy.prepare(theta[0])), batch, policy.outputs).pullback(weight)
    return ((slope - (pulled * direction).sum(1)).abs() / slope.abs().clamp(min=1.0)).max().item()


@pytest.mark.parametrize("name", [*names("policies"), ACTION])
def test_the_pullback_is_the_slope_of_the_outputs(name):
    """Of every policy, whatever it computes: truncation and rounding leave 1e-8 of such a difference."""
    assert slope_error(*problem(name)) < 1e-6


class OneOutput:
    """A defect: a policy whose pullback knows its first output alone."""

    def __init__(self, inner):
        self.inner, self.outputs, self.prepare = inner, inner.outputs, inner.prepare

    def forward(self, view, batch, names):
        found = self.inner.forward(view, batch, names)
        return found._replace(pullback=lambda each: found.pullback({"log_prob": each["log_prob"]}))


@pytest.mark.parametrize("name", ["tabular", "mlp", ACTION, "causal_lm"])
def test_a_forgotten_output_is_seen(name):
    policy, *rest = problem(name)
    assert slope_error(OneOutput(policy), *rest) > 1e-3


@pytest.mark.parametrize("name", WRITTEN)
@given(seed=st.integers(0, 10**6))
def test_outputs_and_pullback_are_autograds(name, seed):
    policy, theta, batch, weight = problem(name, seed)
    live = theta[0].clone().requires_grad_()
    expected = log_density(name, policy, live, batch.state, batch.action)
    assert expected.keys() == set(policy.outputs)
    forward = policy.forward(versions.current(policy.prepare(theta[0])), batch, policy.outputs)
    for output in policy.outputs:
        torch.testing.assert_close(forward.outputs[output], expected[output].detach(), rtol=0, atol=1e-12)
        (one,) = torch.autograd.grad((weight[output] * expected[output]).sum(), live, retain_graph=True)
        assert (forward.pullback({output: weight[output]}) - one).abs().max() < 1e-12
    (every,) = torch.autograd.grad(sum((weight[o] * expected[o]).sum() for o in policy.outputs), live)
    assert (forward.pullback(weight) - every).abs().max() < 1e-12


@pytest.mark.parametrize("name", WRITTEN)
@given(seed=st.integers(0, 10**6))
def test_tokens_of_two_versions_are_pulled_back_at_their_own_weights(name, seed):
    policy, theta, batch, weight = problem(name, seed)
    slots = np.random.default_rng(seed).integers(0, 2, batch.mask.shape)
    batch.realization = np.arange(R)
    forward = policy.forward(mixed_view(policy, theta, slots), dataclasses.replace(batch, index=None), policy.outputs)
    total = torch.zeros(R, policy.size, dtype=torch.float64)
    for version in (0, 1):
        here = torch.from_numpy(slots == version)
        live = theta[version].clone().requires_grad_()
        expected = log_density(name, policy, live, batch.state, batch.action)
        for output in policy.outputs:
            torch.testing.assert_close(
                forward.outputs[output][here], expected[output].detach()[here], rtol=0, atol=1e-12
            )
        part = sum((weight[o] * expected[o])[here].sum() for o in policy.outputs)
        total += torch.autograd.grad(part, live)[0]
    assert (forward.pullback(weight) - total).abs().max() < 1e-12


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", ["tabular", "gaussian", "mlp", ACTION])
@given(seed=st.integers(0, 10**6))
def test_score_norm_is_brute_force(name, mixed, seed):
    """Squared norm of each sample's own pulled-back vector, tokens in one row and of several versions included."""
    policy, theta, batch, weight = problem(name, seed)
    slots = (
        np.random.default_rng(seed).integers(0, 2, batch.mask.shape)
        if mixed
        else np.zeros((1, 1, 1, 1), dtype=np.int64)
    )
    view = mixed_view(policy, theta, slots)
    found = policy.score_norm(view, batch, weight["log_prob"])
    forward = policy.forward(view, batch, ("log_prob",))
    for g in range(G):
        for n in range(N):
            alone = torch.zeros_like(weight["log_prob"])
            alone[:, g, n] = weight["log_prob"][:, g, n]
            expected = (forward.pullback({"log_prob": alone}) ** 2).sum(-1)
            torch.testing.assert_close(found[:, g, n], expected, rtol=1e-10, atol=1e-12)


@given(seed=st.integers(0, 10**6), tokens=st.sampled_from([1, 2, 3, 5]))
def test_score_norms_of_one_version_are_those_of_pairs(seed, tokens):
    """A table for each sample, or every pair of its tokens; one weight for each token, or one for a sequence."""
    policy, theta, batch, weight = problem("tabular", seed, tokens)
    same = theta[:1].expand(2, -1, -1)
    slots = np.random.default_rng(seed).integers(0, 2, batch.mask.shape)
    for each in (weight["log_prob"], weight["log_prob"][..., :1]):
        found = policy.score_norm(versions.current(policy.prepare(theta[0])), batch, each)
        batch.index, batch.realization = None, np.arange(R)
        pairs = policy.score_norm(mixed_view(policy, same, slots), batch, each)
        batch.index = None
        torch.testing.assert_close(found, pairs, rtol=1e-10, atol=1e-12)


def test_a_loss_has_no_score():
    policy, theta, batch, weight = problem("quadratic")
    with pytest.raises(InputError, match=r"methods.gradient\(\)"):
        policy.score_norm(versions.current(policy.prepare(theta[0])), batch, weight["loss"])


def test_the_state_value_of_an_action_critic_is_its_mean_over_actions():
    """Of observations, for futures that were cut off; the outputs of a batch have no state value."""
    policy, theta, batch, _ = problem(ACTION)
    view = versions.current(policy.prepare(theta[0]))
    found = policy.forward(view, batch, policy.outputs).outputs
    assert policy.critic and "value" not in policy.outputs
    expected = (found["log_probs"].exp() * found["action_values"]).sum(-1)
    for t in range(T):
        torch.testing.assert_close(policy.value(view, batch.state[..., t, :]), expected[..., t], rtol=0, atol=1e-12)
    assert set(policy.act(view, batch.state[..., 0, :], draws_of(np.arange(6).reshape(1, 2, 3)), 0).outputs) == {
        "log_prob"
    }
    for bad in ("state", "True"):
        with pytest.raises(InputError, match=f"critic = '{bad}': must be one of action"):
            sim.policies.mlp(3, 2, critic=bad)
    with pytest.raises(InputError, match="critic = 'action': must be True or False for a normal head"):
        sim.policies.mlp(3, 2, head="gaussian", critic="action")


@pytest.mark.parametrize("name", names("policies"))
def test_unknown_outputs_are_refused(name):
    policy, theta, batch, _ = problem(name)
    with pytest.raises(InputError, match=r"policy output = 'nothing': must be one of"):
        policy.forward(versions.current(policy.prepare(theta[0])), batch, ("nothing",))


@pytest.mark.parametrize("name", names("policies"))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_initial_parameters(name, dtype):
    policy = make("policies", name)
    start = policy.initial(4, dtype)
    assert start.shape == (4, policy.size) and start.dtype == dtype and torch.isfinite(start).all()
    assert all(w.shape[0] == 4 and w.dtype == dtype for w in policy.prepare(start).values())


# Actions.


def draws_of(ids, replicates=R):
    return Draws(rng.Stream(5, "rollout"), np.arange(replicates), np.zeros(replicates, dtype=np.int64), ids)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 1.0, 30.0, 1e4]))
def test_actions_by_inverse_cdf(seed, spread):
    random = np.random.default_rng(seed)
    policy = sim.policies.tabular(rows=2, actions=4)
    theta = torch.from_numpy(spread * random.normal(size=(R, 8)))
    state = torch.from_numpy(random.integers(0, 2, (R, 5, 6)))
    ids = np.arange(30).reshape(1, 5, 6)
    action = policy.act(versions.current(policy.prepare(theta)), state, draws_of(ids), 2).action.numpy()
    uniform = rng.Stream(5, "rollout").uniform(np.arange(R)[:, None, None], ids, 2, 0)
    prob = np.exp(theta.numpy() - theta.numpy().reshape(R, 2, 4).max(-1).repeat(4, -1).reshape(R, 8)).reshape(R, 2, 4)
    prob /= prob.sum(-1, keepdims=True)
    chosen = prob[np.arange(R)[:, None, None], state.numpy()]
    edges = np.cumsum(chosen, -1)
    below = np.take_along_axis(np.concatenate([np.zeros((*action.shape, 1)), edges], -1), action[..., None], -1)[..., 0]
    above = np.take_along_axis(edges, action[..., None], -1)[..., 0]
    assert ((below - 1e-12 <= uniform) & (uniform <= above + 1e-12)).all()
    assert (np.take_along_axis(chosen, action[..., None], -1) > 0).all(), "an impossible action was drawn"


@pytest.mark.parametrize("total", [1.0, 1.0 - 1e-7])
def test_the_last_possible_action_takes_what_rounding_leaves(total):
    """Where probabilities sum to less than the largest uniform, the impossible actions behind are still not drawn."""
    from asyncsim.policies import _kernels as kernels

    cdf = np.array([0.3, 0.6, total, total, total]).reshape(1, 1, 1, 5)
    uniform = np.array([0.0, 0.5, 0.7, 1 - 2.0**-53]).reshape(1, 1, 4)
    action = np.empty((1, 1, 4), dtype=np.int64)
    nothing = np.zeros((1, 1, 4), dtype=np.int64)
    kernels.choose(uniform, np.zeros(1, dtype=np.int64), cdf, nothing[..., :1], nothing, action)
    assert action[0, 0].tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("name", ["gaussian", "quadratic"])
def test_normal_draws_are_the_keyed_ones(name):
    policy, theta, _, _ = problem(name)
    ids = np.arange(6).reshape(1, 2, 3)
    view = versions.current(policy.prepare(theta[0]))
    state = torch.zeros(R, 2, 3, dtype=torch.int64)
    action = policy.act(view, state, draws_of(ids), 0).action.numpy()
    z = rng.Stream(5, "rollout").normal(np.arange(R)[:, None, None, None], ids[..., None], 0, np.arange(policy.size))
    expected = theta[0].numpy()[:, None, None] + 0.6 * z if name != "quadratic" else z
    np.testing.assert_allclose(action, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("scale", [1e3, 1e100])
def test_extreme_logits_keep_every_output_finite(scale):
    policy = sim.policies.tabular(rows=1, actions=3)
    _, _, batch, _ = problem("tabular")
    batch.state = torch.zeros_like(batch.state)
    batch.action = torch.ones_like(batch.action)
    theta = torch.tensor([[0.0, scale, -scale]], dtype=torch.float64).repeat(R, 1)
    forward = policy.forward(versions.current(policy.prepare(theta)), batch, policy.outputs)
    assert (forward.outputs["log_prob"] == 0.0).all() and (forward.outputs["entropy"] == 0.0).all()
    torch.testing.assert_close(
        forward.outputs["kl"], torch.full((R, G, N, T), math.log(3.0), dtype=torch.float64), rtol=0, atol=1e-9
    )
    pulled = forward.pullback({o: torch.ones(wide(policy, o, (R, G, N, T))).double() for o in policy.outputs})
    assert torch.isfinite(pulled).all()
