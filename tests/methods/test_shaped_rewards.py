"""Advantages that shape rewards, against enumeration and loops: best of k, likelihood, whole steps."""

import itertools
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.sampling import oracle
from tests.contracts.laboratory import acting, case, step_of
from tests.refusals import refused

THETA = np.array([0.4, -0.3, 0.1])
PAYS = [0.1, 0.5, 1.0]


def softmax(theta):
    return np.exp(theta) / np.exp(theta).sum()


def mean_gradient(advantage, means, samples):
    """Exact mean of the on-policy gradient over all groups."""
    task = sim.tasks.softmax_bandit(arms=3, means=means, rewards="fixed")
    method = sim.methods.reinforce(advantage, "sequence_sum")
    return np.ravel(oracle.moments(task, method, THETA, samples=samples).mean)


def expected_best(k, means):
    """Gradient in theta of the expected best of k draws, over all of them."""
    pi, found = softmax(THETA), np.zeros(3)
    for draws in itertools.product(range(3), repeat=k):
        chance = math.prod(pi[a] for a in draws)
        found += chance * max(means[a] for a in draws) * (np.bincount(draws, minlength=3) - k * pi)
    return found


@pytest.mark.parametrize(("k", "samples"), [(2, 2), (2, 3), (3, 3), (2, 4), (3, 4)])
def test_pass_at_k_is_the_gradient_of_the_best_of_k(k, samples):
    """k times its mean; another k, or the plain mean reward, is another direction."""
    found = k * mean_gradient(sim.advantages.pass_at_k(k), PAYS, samples)
    np.testing.assert_allclose(found, expected_best(k, PAYS), atol=1e-13)
    for wrong in (k * mean_gradient(sim.advantages.leave_one_out(), PAYS, samples), expected_best(k + 1, PAYS)):
        assert np.abs(found - wrong).max() > 1e-3


def test_the_best_of_all_keeps_its_lead_over_the_second():
    """As a released trainer has it, with the deviation and without; ties leave nothing."""
    rewards = torch.tensor([[[0.2, 1.0, 0.7, 0.1], [1.0, 1.0, 0.0, 0.0]]], dtype=torch.float64)
    step = step_of(case(R=1, G=2, N=4, T=1, ragged=False).batch, reward=rewards)
    assert sim.advantages.pass_at_k(4)(step).tolist() == [[[0, pytest.approx(0.3), 0, 0], [0, 0, 0, 0]]]
    scaled = sim.advantages.pass_at_k(4, standardize=True)(step)[0, 0]
    assert scaled[1].item() == pytest.approx(0.3 / (rewards[0, 0].std().item() + 1e-6))


def test_a_population_has_the_best_of_k_too():
    """Chance p of 1: what a success adds is (1 - p)^(k - 1)."""
    rewards = torch.tensor([[[0.0, 1.0]]], dtype=torch.float64)
    batch = case(R=1, G=1, N=2, T=1, ragged=False).batch
    batch.mass, batch.size = torch.tensor([[[0.7, 0.3]]], dtype=torch.float64), math.inf
    for k in (2, 3, 5):
        found = sim.advantages.pass_at_k(k)(step_of(batch, reward=rewards)).flatten().tolist()
        assert found == [0.0, pytest.approx(0.7 ** (k - 1))]


def test_more_samples_than_a_group_has_are_refused():
    refused(r"at least k = 5; write samples_per_group=5, or lower k", lambda: sim.advantages.pass_at_k(5).check(4))
    for wrong in (1, 2.5, True):
        refused("k", sim.advantages.pass_at_k, wrong)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_maxrl_has_the_first_terms_of_the_likelihood(samples):
    """sum_(k < N) (1 - p)^(k - 1) grad p; with one more term, as without the baseline, it is another one."""
    means = [0.0, 1.0, 0.0]
    pi = softmax(THETA)
    p = pi[1]
    slope = pi * (np.array(means) - p)
    found = mean_gradient(sim.advantages.maxrl(eps=0.0), means, samples)
    terms = [(1 - p) ** (k - 1) for k in range(1, samples + 1)]
    np.testing.assert_allclose(found, sum(terms[:-1]) * slope, atol=1e-13)
    assert np.abs(found - sum(terms) * slope).max() > 1e-3


def test_a_group_without_success_has_no_likelihood():
    rewards = torch.tensor([[[0.0, 0.0, 0.0], [-1.0, 0.0, 0.5], [0.0, 0.0, 1.0]]], dtype=torch.float64)
    step = step_of(case(R=1, G=3, N=3, T=1, ragged=False).batch, reward=rewards)
    found = sim.advantages.maxrl(eps=0.0)(step)[0]
    assert found[:2].tolist() == [[0.0] * 3] * 2 and found[2].tolist() == pytest.approx([-1.0, -1.0, 2.0])


def looped(batch, discount, group, ddof):
    """Returns, baseline and standardization one replicate and token at a time."""
    mask, reward = batch.mask.numpy() > 0, batch.token_reward.numpy()
    R, G, N = mask.shape[:3]
    out = np.zeros(mask.shape)
    for r, g, i in np.ndindex(R, G, N):
        running = 0.0
        for t in reversed(range(int(mask[r, g, i].sum()))):
            running = reward[r, g, i, t] + discount * running
            out[r, g, i, t] = running
    if group:
        out -= out[..., :1].mean(2, keepdims=True)
    for r in range(R):
        seen = out[r][mask[r]]
        out[r] = (out[r] - seen.mean()) / seen.std(ddof=ddof)
    return np.where(mask, out, 0.0)


@pytest.mark.parametrize(("group", "unbiased"), [(False, False), (True, False), (True, True)])
def test_reinforce_plus_plus_by_a_loop(group, unbiased):
    """Rewards of every token; a baseline or a divisor of the other form is seen."""
    batch = acting(3, N=4, T=5).batch
    advantage = sim.advantages.reinforce_plus_plus("group" if group else "none", 0.9, unbiased)
    found = advantage(step_of(batch)).numpy()
    np.testing.assert_allclose(found, looped(batch, 0.9, group, int(unbiased)), atol=1e-12)
    for wrong in (looped(batch, 0.9, not group, int(unbiased)), looped(batch, 0.9, group, int(not unbiased))):
        assert np.abs(found - wrong).max() > 1e-3


@pytest.mark.parametrize("baseline", ["none", "group"])
def test_it_finishes_in_a_minibatch(baseline):
    """Returns and baseline of the whole batch, mean and deviation of the minibatch: not those of the batch."""
    task, system, method = (
        sim.tasks.token_bandit(actions=3, horizon=3),
        sim.schedules.fixed(0),
        sim.methods.ppo_clip(advantage=sim.advantages.reinforce_plus_plus(baseline)),
    )
    options = {"samples_per_group": 8, "updates": 4, "minibatches": 2, "cut": "samples", "advantages_from": "minibatch"}
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.sgd(1.0)), **options)
    one, two = (sim.run(s, seed=2).parameters for s in (spec, spec.replace(advantages_from="batch")))
    assert np.isfinite(one).all() and (one != two).any()


# ReMax.


def greedy_of(task, theta, groups=1):
    """What the likeliest response earns at these parameters, in a step of a run."""
    seen = []
    spec = sim.Spec(
        task,
        sim.schedules.fixed(0, groups_per_batch=groups),
        sim.methods.reinforce(sim.advantages.remax()),
        sim.chain(sim.updates.sgd(0.0)),
        samples_per_group=2,
        updates=1,
        initial=np.asarray(theta, dtype=float)[None],
        replicates=1,
    )
    right = type(task).greedy

    def greedy(self, policy, view, batch):
        seen.append(right(self, policy, view, batch))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(task), "greedy", greedy)
        sim.run(spec, seed=1, progress=False)
    return seen[0]


def test_the_greedy_response_takes_the_likeliest_token_of_every_state():
    """Start: token 0; after token 0: token 1; after token 1: token 0; so 0 1 0 of which two are right."""
    task = sim.tasks.token_bandit(actions=2, horizon=3, dependence="markov")
    found = greedy_of(task, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    assert found.flatten().tolist() == pytest.approx([2 / 3] * 2)
    # The other way round, and with an end: token 1 ends it at once, and nothing is right.
    assert greedy_of(task, [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]).flatten().tolist() == [0.0] * 2
    ends = sim.tasks.token_bandit(actions=2, horizon=3, dependence="markov", ends=True)
    assert greedy_of(ends, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]).flatten().tolist() == pytest.approx([1 / 3] * 2)


def test_prompts_have_greedy_responses_of_their_own():
    task = sim.tasks.softmax_bandit(means=[[0.1, 0.9], [0.8, 0.3]], arms=2)
    found = greedy_of(task, [0.0, 1.0, 0.0, 1.0], groups=2)
    assert found.tolist() == [[pytest.approx([0.9, 0.9]), pytest.approx([0.3, 0.3])]]
    assert greedy_of(task, [1.0, 0.0, 0.0, 1.0]).flatten().tolist() == pytest.approx([0.1, 0.1])


def test_remax_compares_a_prompt_with_its_own_greedy_response():
    """Greedy arms earn 0.9 and 0.3; the mean over prompts, 0.6, belongs to neither."""
    task = sim.tasks.softmax_bandit(means=[[0.1, 0.9], [0.8, 0.3]], arms=2, rewards="fixed")
    step = sim.oracle.population_step(task, sim.methods.reinforce(sim.advantages.remax()), [0.0, 1.0, 0.0, 1.0])
    assert step.advantages[0].tolist() == [pytest.approx([-0.8, 0.0]), pytest.approx([0.5, 0.0])]


def test_remax_is_unbiased_for_a_group_of_one():
    """A baseline that knows nothing of the sample; the group's mean has 1 - 1/N of the gradient."""
    task = sim.tasks.softmax_bandit(arms=3, means=PAYS, rewards="fixed")
    exact = task.exact(task.policy(), torch.from_numpy(THETA)[None])[1][0].numpy()
    for samples in (1, 2):
        np.testing.assert_allclose(mean_gradient(sim.advantages.remax(), PAYS, samples), exact, atol=1e-14)
    assert np.abs(mean_gradient(sim.advantages.group_mean(), PAYS, 2) - exact).max() > 1e-3


def test_a_task_without_a_greedy_response_is_named():
    method = sim.methods.reinforce(sim.advantages.remax())
    now = torch.full((2, 2), -1.0)
    with pytest.raises(InputError, match="advantage = 'remax': must be one that needs no greedy response"):
        method.weigh(now, now, rewards=torch.tensor([0.0, 1.0]))
    spec = sim.Spec(
        sim.tasks.frozen_lake(), sim.schedules.fixed(0), method, sim.chain(), samples_per_group=2, updates=1
    )
    refused("pays a whole response", sim.run, spec, seed=1, progress=False)


def test_the_penalty_of_a_task_is_in_the_returns():
    """r less beta (log pi - log reference) of every token from there on."""
    task = sim.tasks.token_bandit(actions=3, horizon=3, kl_coef=0.3)
    spec = sim.Spec(
        task,
        sim.schedules.fixed(0),
        sim.methods.reinforce(sim.advantages.reinforce_plus_plus()),
        sim.chain(sim.updates.sgd(1.0)),
        samples_per_group=5,
        updates=3,
    )
    plain = spec.replace(task=sim.tasks.token_bandit(actions=3, horizon=3))
    assert (sim.run(spec, seed=1).parameters != sim.run(plain, seed=1).parameters).any()
