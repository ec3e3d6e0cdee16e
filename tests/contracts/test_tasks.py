"""Tasks: complete enumerations, exact values two ways, rewards of the stated law."""

import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.sampling.rollouts import Sampler, enumerate_outcomes, monte_carlo
from asyncsim.step import versions
from tests.contracts.laboratory import make, names, policy_of
from tests.refusals import refused

TABULAR = {
    "bandit": lambda **k: sim.tasks.softmax_bandit(arms=3, means=[0.2, 0.9, 0.5], **k),
    "two prompts": lambda **k: sim.tasks.softmax_bandit(arms=3, means=[[0.2, 0.9, 0.5], [0.7, 0.1, 0.3]], **k),
    "iid": lambda **k: sim.tasks.token_bandit(actions=2, horizon=4, dependence="iid", **k),
    "position": lambda **k: sim.tasks.token_bandit(actions=3, horizon=3, dependence="position", success=0.6, **k),
    "markov ends": lambda **k: sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", ends=True, **k),
}
INEXACT = ("arithmetic", "calculator", "gym", "text")
"""Tasks whose expected return has no formula; they say so."""
ZERO = np.zeros((1, 1, 1, 1), dtype=np.int32)


def parameters(task, seed=0, R=2):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(R, task.policy().size)))


def population(task, theta):
    R = theta.shape[0]
    sampler = Sampler(task, task.policy(), 1, 0, np.arange(R), np.zeros(R, dtype=np.int64))
    view = versions.current(task.policy().prepare(theta))
    return enumerate_outcomes(sampler, ZERO, 0, np.arange(task.prompts).reshape(1, -1, 1), view)


def samples(task, theta, count, groups=1, policy=None):
    R, policy = theta.shape[0], policy or task.policy()
    sampler = Sampler(task.fit(policy), policy, count, 0, np.arange(R), np.zeros(R, dtype=np.int64))
    ids = np.arange(groups * count).reshape(1, groups, count)
    with torch.no_grad():
        return monte_carlo(sampler, ZERO, 0, ids, versions.current(policy.prepare(theta)))


@pytest.mark.parametrize("name", names("tasks"))
def test_a_batch_has_the_shapes_of_the_contract(name):
    task = make("tasks", name)
    policy = policy_of(task)
    theta = policy.initial(3, getattr(torch, policy.precision))
    batch = samples(task, theta, 4, groups=2, policy=policy)
    shape = (3, 2, 4, task.horizon)
    assert batch.action.shape[:4] == batch.mask.shape == shape
    assert batch.state.shape[:4] == ((3, 2, 4, 1) if task.still else shape)
    # Networks read vectors: an observation, or the ids of a prompt.
    assert batch.state.ndim == (4 if policy.precision == "float64" else 5)
    assert batch.reward.shape == shape[:3] and batch.mass.broadcast_to(shape[:3]).shape == shape[:3]
    assert torch.isfinite(batch.reward).all() and (batch.mask[..., 0] == 1).all()
    assert task.tools or (batch.mask.diff(dim=-1) <= 0).all(), "a token after the end"
    assert ((batch.mass.sum(-1) - 1.0).abs() < 1e-12).all()
    if name in INEXACT:
        refused(r"task = .*: must be one", task.exact, policy, theta)
        return
    value, gradient = task.exact(policy, theta)
    assert value.shape == (3,) and gradient.shape == (3, policy.size)


@pytest.mark.parametrize("rewards", ["fixed", "bernoulli"])
@pytest.mark.parametrize("name", TABULAR)
def test_the_population_is_complete(name, rewards):
    task = TABULAR[name](rewards=rewards)
    batch = population(task, parameters(task))
    torch.testing.assert_close(batch.mass.sum(-1), torch.ones(2, task.prompts).double(), rtol=0, atol=1e-12)
    assert math.isinf(batch.size) and (batch.mass >= 0).all()
    spoken = torch.where(batch.mask > 0, batch.action, -1)
    for g in range(task.prompts):
        outcomes = {(*row.tolist(), float(r)) for row, r in zip(spoken[0, g], batch.reward[0, g], strict=True)}
        assert len(outcomes) == batch.reward.shape[2], "an outcome stands twice"


@pytest.mark.parametrize("penalty", [{}, {"kl_coef": 0.4}, {"kl_coef": 0.4, "reference": "given", "kl_at": "current"}])
@pytest.mark.parametrize("rewards", ["fixed", "bernoulli"])
@pytest.mark.parametrize("name", TABULAR)
def test_exact_value_and_gradient(name, rewards, penalty):
    """Against a sum over sequences in plain Python, differentiated by autograd."""
    import itertools

    penalty = dict(penalty)
    actions = TABULAR[name]().actions
    reference = np.linspace(-1, 1, actions)
    if penalty.get("reference"):
        penalty["reference"] = reference
    task = TABULAR[name](rewards=rewards, **penalty)
    theta = parameters(task)
    value, gradient = task.exact(task.policy(), theta)
    live = theta[1].clone().requires_grad_()
    table = torch.log_softmax(live.reshape(task.rows, actions), -1)
    log_ref = torch.log_softmax(torch.from_numpy(reference if "reference" in penalty else np.zeros(actions)), -1)
    total = torch.zeros((), dtype=torch.float64)
    for prompt in range(task.prompts):
        seen = set()
        for sequence in itertools.product(range(actions), repeat=task.horizon):
            if "ends" in name and actions - 1 in sequence:
                sequence = sequence[: sequence.index(actions - 1) + 1]
            if sequence in seen:
                continue
            seen.add(sequence)
            rows = {
                "bandit": lambda t, s: 0,
                "two prompts": lambda t, s, p=prompt: p,
                "iid": lambda t, s: 0,
                "position": lambda t, s: t,
                "markov ends": lambda t, s: s[t - 1] + 1 if t else 0,
            }[name]
            log_prob = [table[rows(t, sequence), a] for t, a in enumerate(sequence)]
            if name in ("bandit", "two prompts"):
                means = [[0.2, 0.9, 0.5], [0.7, 0.1, 0.3]] if name == "two prompts" else [[0.2, 0.9, 0.5]]
                reward = means[prompt][sequence[0]]
            else:
                reward = sequence.count(0) / task.horizon
                reward = float(reward >= 0.6) if name == "position" else reward
            cost = sum(p - log_ref[a] for p, a in zip(log_prob, sequence, strict=True)) * penalty.get("kl_coef", 0.0)
            total = total + sum(log_prob).exp() * (reward - cost) / task.prompts
    (expected,) = torch.autograd.grad(total, live)
    torch.testing.assert_close(value[1], total.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient[1], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in names("tasks") if name not in INEXACT])
def test_exact_gradient_is_the_slope_of_the_exact_value(name):
    task = make("tasks", name)
    theta = torch.from_numpy(np.random.default_rng(1).normal(size=(1, task.policy().size)))
    _, gradient = task.exact(task.policy(), theta)
    step = torch.eye(theta.shape[1]).double() * 1e-5
    slope = (task.exact(task.policy(), theta + step)[0] - task.exact(task.policy(), theta - step)[0]) / 2e-5
    torch.testing.assert_close(gradient[0], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rewards", ["fixed", "bernoulli", "gaussian"])
@pytest.mark.parametrize("name", TABULAR)
def test_sampled_rewards_have_the_exact_mean(name, rewards):
    """z of the mean of 20,000 rewards below 5: a right program fails for one seed in 10^6; 0.05 more is seen."""
    task = TABULAR[name](rewards=rewards)
    theta = parameters(task, R=1)
    batch = samples(task, theta, 10_000, groups=2)
    mean = TABULAR[name](rewards="fixed")
    expected = mean.exact(mean.policy(), theta)[0].item()
    reward = batch.reward.numpy().ravel()
    error = reward.std() / math.sqrt(reward.size)
    assert abs(reward.mean() - expected) < 5 * error
    assert abs(reward.mean() - expected - 0.05) > 5 * error


@pytest.mark.parametrize("name", TABULAR)
def test_gaussian_rewards_have_the_deviation_that_was_asked_for(name):
    """20,000 noises: 3 percent are six standard errors, so it fails for less than one seed in 10^8."""
    task = TABULAR[name](rewards="gaussian", deviation=0.25)
    batch = samples(task, parameters(task, R=1), 10_000, groups=2)
    noise = batch.reward - task.score(batch.state, batch.action, batch.mask)
    assert noise.std().item() == pytest.approx(0.25, rel=0.03)


def test_gaussian_bandit_matches_its_closed_form():
    """Same rates as above."""
    task = sim.tasks.gaussian_bandit(curvature=2.0, target=0.5, width=0.7, dimension=2)
    theta = torch.tensor([[0.3, -0.4]], dtype=torch.float64)
    reward = samples(task, theta, 20_000).reward.numpy().ravel()
    expected = -0.5 * 2.0 * ((0.3 - 0.5) ** 2 + (-0.4 - 0.5) ** 2 + 2 * 0.49)
    assert abs(reward.mean() - expected) < 5 * reward.std() / math.sqrt(reward.size) < 0.06
    assert task.exact(task.policy(), theta)[0].item() == pytest.approx(expected, abs=1e-12)


def test_tokens_right_after_the_end_are_not_counted():
    """An ending token at once leaves one token and reward 0, whatever would have followed."""
    task = sim.tasks.token_bandit(actions=2, horizon=5, ends=True, logits=[[-50.0, 50.0]])
    batch = samples(task, task.policy().initial(1, torch.float64), 50)
    assert (batch.lengths == 1).all() and (batch.reward == 0).all()
    everything = sim.tasks.token_bandit(actions=2, horizon=5, ends=True, logits=[[50.0, -50.0]])
    batch = samples(everything, everything.policy().initial(1, torch.float64), 50)
    assert (batch.lengths == 5).all() and (batch.reward == 1).all()


@pytest.mark.parametrize(("fraction", "value"), [(0.0, 1.0), (1.0, 0.5**3)])
def test_success_at_both_ends(fraction, value):
    task = sim.tasks.token_bandit(actions=2, horizon=3, success=fraction)
    assert task.exact(task.policy(), torch.zeros(1, 2).double())[0].item() == pytest.approx(value)


def test_what_cannot_be_enumerated_says_so():
    for task in (sim.tasks.gaussian_bandit(), sim.tasks.softmax_bandit(rewards="gaussian")):
        refused("monte_carlo", task.outcomes, torch.zeros(1, dtype=torch.int64))
    with pytest.raises(InputError, match=r"actions \*\* horizon = 1048576: must be at most 1000000"):
        sim.tasks.token_bandit(actions=2, horizon=20).outcomes(torch.zeros(1, dtype=torch.int64))
